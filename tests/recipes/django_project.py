"""What a Django project has around the files of the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.recipes.recipe import Recipe

SETTINGS = """
SECRET_KEY = "for tests"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "project.urls"
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
DATABASES = {{"default": {database}}}
"""

URLS = """
from django.urls import path
from shop import transactional, views

urlpatterns = [
    path("orders/<int:number>", views.order),
    path("transactional/<int:number>", transactional.order),
]
"""

# Posts what it reads: [[path, form], …]; prints [[status, …], how many orders there are].
VISIT = """
import json
import os
import sys

os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
import django

django.setup()
from django.test import Client
from shop.models import Order

answers = [Client().post(path, form).status_code for path, form in json.load(sys.stdin)]
print(json.dumps([answers, Order.objects.count()]))
"""


def project(folder: Path, database: Mapping[str, object], **environ: str) -> Recipe:
    recipe = Recipe("django", folder, **environ)
    recipe.write("project/__init__.py", "")
    recipe.write("project/settings.py", SETTINGS.format(database=database))
    recipe.write("project/urls.py", URLS)
    recipe.write("shop/__init__.py", "")
    recipe.write("visit.py", VISIT)
    # The app has no migrations of its own, so its tables are made as its models say.
    made = recipe.run("-m", "django", "migrate", "--run-syncdb", "--settings", "project.settings")
    assert made.code == 0, made.err
    return recipe
