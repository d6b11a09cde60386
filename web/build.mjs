// Builds the dashboard into the folder given, with hashed names that may be cached for ever.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = process.argv[2] ?? join(here, "../src/taskyard/server/static");
const assets = join(target, "assets");

await rm(target, { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.tsx"],
  entryNames: "app-[hash]",
  assetNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".woff2": "file" },
  legalComments: "none",
  metafile: true,
  outdir: assets,
});

const names = Object.keys(metafile.outputs).map((path) => basename(path));
const named = (ending) => names.find((name) => name.startsWith("app-") && name.endsWith(ending));
const icon = await readFile(join(here, "src/icon.svg"));
const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8)}.svg`;
await mkdir(assets, { recursive: true });
await writeFile(join(assets, iconName), icon);

// Whose work is in the bundle, and on what terms: it is handed on with it.
const packages = Object.keys(metafile.inputs).map(
  (path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1],
);
const terms = [...new Set(packages.filter(Boolean))].sort().map(async (name) => {
  const text = await readFile(join(here, "node_modules", name, "LICENSE"), "utf8");
  return `${name}\n\n${text.trim()}\n`;
});
await writeFile(
  join(target, "licenses.txt"),
  (await Promise.all(terms)).join(`\n${"-".repeat(80)}\n\n`),
);

const shell = (await readFile(join(here, "index.html"), "utf8"))
  .replace("{icon}", iconName)
  .replace("{style}", named(".css"))
  .replace("{script}", named(".js"));
await writeFile(join(target, "index.html"), shell);
