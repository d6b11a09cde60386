/** The small parts that pages are made of. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Problem } from "../api";
import { moment, pretty, progress as told, relative } from "../format";
import { now } from "../store";
import type { Json, Progress, State } from "../types";
import { Icon, type IconName } from "./icons";

export function StateBadge({ state, asked }: { state: State; asked?: string | null }) {
  return (
    <span class={`badge ${state}`}>
      <i class="dot" />
      {asked ? `${asked === "cancel" ? "cancelling" : "pausing"}…` : state}
    </span>
  );
}

/** A moment as time from now; its date is in the title. */
export function When({ at }: { at: string | null }) {
  if (!at) return <span class="faint">–</span>;
  return (
    <time dateTime={at} title={`${moment(at)} (${at})`}>
      {relative(at, now.value)}
    </time>
  );
}

interface ButtonProps {
  icon?: IconName;
  label?: string; // for those who do not see the icon
  tone?: "primary" | "danger" | "quiet";
  small?: boolean;
  disabled?: boolean;
  type?: "submit" | "button";
  onClick?: () => unknown;
  children?: ComponentChildren;
}

/** A button that cannot be pressed again while what it does is under way. */
export function Button({
  icon,
  label,
  tone,
  small,
  disabled,
  type,
  onClick,
  children,
}: ButtonProps) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    setBusy(true);
    try {
      await onClick?.();
    } finally {
      setBusy(false);
    }
  };
  const classes = ["button", tone, small && "small", !children && "square"].filter(Boolean);
  return (
    <button
      type={type ?? "button"}
      class={classes.join(" ")}
      disabled={disabled || busy}
      aria-label={label}
      title={label}
      onClick={onClick && press}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Empty(props: { icon: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name={props.icon} />
      </span>
      <strong>{props.title}</strong>
      {props.children && <p>{props.children}</p>}
    </div>
  );
}

export function Failed({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <Empty icon="alert" title={problem.status === 404 ? "Not found" : "That did not work"}>
      {problem.message}
      {retry && (
        <>
          {" "}
          <button type="button" class="linklike" onClick={retry}>
            Try again
          </button>
        </>
      )}
    </Empty>
  );
}

/** Rows of grey where a table will be. */
export function Loading({ rows = 8 }: { rows?: number }) {
  return (
    <div class="loading" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <i key={row} />
      ))}
    </div>
  );
}

interface CardProps {
  title?: ComponentChildren;
  aside?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}

export function Card({ title, aside, children, class: name }: CardProps) {
  return (
    <section class={`card ${name ?? ""}`}>
      {title && (
        <header>
          <h2>{title}</h2>
          {aside && <div class="aside">{aside}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

/** How much of something is taken. */
export function Meter({ value, of, tone }: { value: number; of: number | null; tone?: string }) {
  const share = of ? Math.min(1, value / of) : value ? 1 : 0;
  return (
    <span class={`meter ${tone ?? ""} ${of === null ? "open" : ""}`} aria-hidden="true">
      <i style={{ transform: `scaleX(${share})` }} />
    </span>
  );
}

export function ProgressBar({ progress }: { progress: Progress }) {
  const share = progress.total ? progress.done / progress.total : null;
  return (
    <span class="progress" title={told(progress)}>
      <Meter value={progress.done} of={progress.total} />
      <span>{share === null ? told(progress) : `${Math.floor(share * 100)} %`}</span>
    </span>
  );
}

interface CopyProps {
  text: string | (() => string);
  label?: string;
  children?: ComponentChildren;
}

export function Copy({ text, label = "Copy", children }: CopyProps) {
  const [copied, setCopied] = useState(false);
  const timer = useRef(0);
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "string" ? text : text());
    setCopied(true);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setCopied(false), 1500);
  };
  // Browsers have a clipboard only where the page came safely: loopback or TLS.
  if (!navigator.clipboard) return <>{children}</>;
  return (
    <button type="button" class="copy" onClick={copy} title={label} aria-label={children ? undefined : label}>
      {children}
      <Icon name={copied ? "check" : "copy"} />
    </button>
  );
}

/** JSON as text, its parts coloured. */
export function JsonBlock({ value }: { value: Json }) {
  const text = pretty(value);
  return (
    <div class="code">
      <Copy text={text} />
      <pre tabIndex={0}>{text.length > 200_000 ? text : coloured(text)}</pre>
    </div>
  );
}

const TOKEN =
  /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function coloured(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, match.index));
    const [token, string, colon] = match;
    const sort = colon ? "name" : string ? "string" : "value";
    parts.push(<span class={sort}>{colon ? string : token}</span>, colon);
    end = match.index + token.length;
  }
  return [...parts, text.slice(end)];
}

interface Choice<T> {
  value: T;
  label: ComponentChildren;
}

/** A few choices side by side, one of them taken. */
export function Segments<T extends string | number>(props: {
  label: string;
  value: T;
  choices: Choice<T>[];
  onChoose: (value: T) => void;
}) {
  return (
    <div class="segments" role="group" aria-label={props.label}>
      {props.choices.map(({ value, label }) => (
        <button
          type="button"
          key={value}
          aria-pressed={value === props.value}
          onClick={() => props.onChoose(value)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

export function Field(props: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{props.label}</span>
      {props.children}
      {props.hint && <small>{props.hint}</small>}
    </label>
  );
}
