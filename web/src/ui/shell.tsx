/** What is around every page: navigation, search, the state of the connection. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { short } from "../format";
import { go, Link, path, query, toTask } from "../router";
import {
  attempt,
  connection,
  dismiss,
  mayAct,
  nextTheme,
  notes,
  session,
  theme,
  yard,
} from "../store";
import { Dialog, FormDialog } from "./dialog";
import { Icon, type IconName } from "./icons";
import { KEYS } from "./keyboard";
import { Button } from "./parts";

export const PAGES: { to: string; name: string; icon: IconName; key: string }[] = [
  { to: "", name: "Overview", icon: "overview", key: "o" },
  { to: "tasks", name: "Tasks", icon: "tasks", key: "t" },
  { to: "lanes", name: "Lanes", icon: "lanes", key: "l" },
  { to: "workers", name: "Workers", icon: "workers", key: "w" },
  { to: "cron", name: "Cron", icon: "cron", key: "c" },
  { to: "kinds", name: "Kinds", icon: "kinds", key: "k" },
  { to: "audit", name: "Audit", icon: "audit", key: "a" },
];

export function Shell({ children }: { children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <nav class="side" aria-label="Pages">
        <Link to="" class="brand" title="Taskyard">
          <Mark />
          <span>Taskyard</span>
        </Link>
        <ul>
          {PAGES.map((page) => (
            <li key={page.to}>
              <Link
                to={page.to}
                current={isCurrent(page.to)}
                title={`${page.name} (g ${page.key})`}
              >
                <Icon name={page.icon} />
                <span>{page.name}</span>
                <Count of={page.to} />
              </Link>
            </li>
          ))}
        </ul>
        <Foot />
      </nav>
      <div class="stage">
        <header class="top">
          <Search />
          <YardSwitch />
          <Own />
          <Live />
        </header>
        <Banner />
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Notes />
    </>
  );
}

const isCurrent = (to: string) => path.value.split("/")[0] === to;

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <rect x="1" y="1" width="22" height="22" rx="6" />
      <path d="M6 7.500h12M6 12h7.500M6 16.500h10" />
      <circle cx="17.500" cy="12" r="1.600" />
    </svg>
  );
}

function Count({ of }: { of: string }) {
  const counts = yard.value?.counts;
  if (!counts || of !== "tasks") return null;
  const failed = counts.failed ?? 0;
  const running = counts.running ?? 0;
  return (
    <span class="counts">
      {running > 0 && <b class="running">{short(running)}</b>}
      {failed > 0 && <b class="failed">{short(failed)}</b>}
    </span>
  );
}

function Foot() {
  return (
    <footer>
      <div class="who">
        <strong>{session.value?.name}</strong>
        <small>
          {session.value?.role}
          {yard.value && ` · ${yard.value.store} · ${yard.value.version}`}
        </small>
      </div>
      <Own />
    </footer>
  );
}

/** What concerns only the one who looks. */
function Own() {
  const icon = ({ system: "system", light: "sun", dark: "moon" } as const)[theme.value];
  const leave = async () => {
    await attempt(api.logout, "");
    session.value = null;
  };
  return (
    <div class="own">
      <Button icon={icon} tone="quiet" label={`Theme: ${theme.value}`} onClick={nextTheme} />
      <Button icon="leave" tone="quiet" label="Log out" onClick={leave} />
    </div>
  );
}

const TASK_ID = /^[0-9a-hjkmnp-tv-z]{26}$/;

function Search() {
  const onTasks = path.value === "tasks";
  const [text, setText] = useState("");
  useEffect(() => setText(onTasks ? (query.value.get("q") ?? "") : ""), [path.value, query.value]);
  const submit = (event: Event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (TASK_ID.test(wanted)) go(toTask(wanted));
    else go(wanted ? `tasks?q=${encodeURIComponent(wanted)}` : "tasks");
  };
  return (
    <form class="search" role="search" onSubmit={submit}>
      <Icon name="search" />
      <input
        id="search"
        type="search"
        placeholder="Find tasks"
        aria-label="Find tasks by id, kind, lane or key"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <kbd>/</kbd>
    </form>
  );
}

function YardSwitch() {
  const paused = yard.value?.paused;
  const [asking, setAsking] = useState(false);
  if (!mayAct.value || paused === undefined) return null;
  if (paused)
    return (
      <Button icon="play" tone="primary" onClick={() => attempt(api.resumeYard, "The yard goes on")}>
        Resume yard
      </Button>
    );
  return (
    <>
      <Button icon="pause" tone="quiet" onClick={() => setAsking(true)}>
        <span class="words">Pause yard</span>
      </Button>
      {asking && (
        <FormDialog
          title="Pause the whole yard?"
          action="Pause the yard"
          onSubmit={() => attempt(api.pauseYard, "The yard is paused")}
          onClose={() => setAsking(false)}
        >
          <p>Nothing new starts, in any lane and on any worker. What runs goes on.</p>
        </FormDialog>
      )}
    </>
  );
}

function Live() {
  const words = { live: "Live", connecting: "Connecting", lost: "Not connected" };
  return (
    <span class={`live ${connection.value}`} role="status">
      <i class="dot" />
      <span>{words[connection.value]}</span>
    </span>
  );
}

function Banner() {
  if (connection.value === "lost")
    return (
      <div class="banner lost" role="alert">
        <Icon name="alert" /> Not connected to the server. What you see may be old; trying again…
      </div>
    );
  if (yard.value?.paused)
    return (
      <div class="banner paused" role="status">
        <Icon name="pause" /> The yard is paused: nothing new starts, what runs goes on.
      </div>
    );
  return null;
}

function Notes() {
  return (
    <div class="notes" role="log" aria-live="polite">
      {notes.value.map((note) => (
        <button
          type="button"
          key={note.id}
          class={note.bad ? "bad" : ""}
          onClick={() => dismiss(note.id)}
        >
          <Icon name={note.bad ? "alert" : "check"} />
          {note.text}
        </button>
      ))}
    </div>
  );
}

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl class="keys">
        {[...KEYS, ...PAGES.map((page) => [`g ${page.key}`, page.name] as const)].map(
          ([keys, what]) => (
            <div key={keys}>
              <dt>
                {keys.split(" ").map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{what}</dd>
            </div>
          ),
        )}
      </dl>
    </Dialog>
  );
}

interface HeadProps {
  title: ComponentChildren;
  children?: ComponentChildren;
}

/** The head of a page: its name and what can be done on it. */
export function Head({ title, children }: HeadProps) {
  useEffect(() => {
    if (typeof title === "string") document.title = `${title} · Taskyard`;
  }, [title]);
  return (
    <div class="head">
      <h1>{title}</h1>
      {children && <div class="tools">{children}</div>}
    </div>
  );
}
