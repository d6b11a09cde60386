/** The card with what the bodies of a task have said. */

import { Fragment } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { harmless, moment, number, plural, time } from "../format";
import { asText, dropped, type Hearing, isAtLeast, type Said, TaskLog, wholeLog } from "../logs";
import { attempt, connection, visible } from "../store";
import type { Attempt, Level, TaskView } from "../types";
import { Button, Card, Copy } from "./parts";

const LEAST: [Level, string][] = [
  ["debug", "All levels"],
  ["info", "Info and above"],
  ["warning", "Warnings and above"],
  ["error", "Errors"],
];

/** Listens while somebody looks and there is something to come: a stream is held by no one else. */
function useLog(task: TaskView): TaskLog {
  const log = useMemo(() => new TaskLog(task.id), [task.id]);
  log.attempt = task.attempt;
  const listens =
    visible.value && connection.value !== "lost" && task.attempt > log.ended.value;
  useEffect(() => {
    if (!listens) return;
    log.open();
    return () => log.close();
  }, [log, listens]);
  return log;
}

export function Logs({ task }: { task: TaskView }) {
  const log = useLog(task);
  const [text, setText] = useState("");
  const [least, setLeast] = useState<Level>("debug");
  const [follows, setFollows] = useState(true);
  const all = log.lines.value;
  const isOver = log.hearing.value === "over";
  const hearing = connection.value === "lost" && !isOver ? "lost" : log.hearing.value;
  const wanted = text.trim().toLowerCase();
  const lines = useMemo(
    () =>
      all.filter(
        (line) => isAtLeast(line.level, least) && line.text.toLowerCase().includes(wanted),
      ),
    [all, wanted, least],
  );
  // Who has said nothing and says nothing more has no card.
  if (!all.length && task.state !== "running") return null;
  const isFiltered = !!wanted || least !== "debug";
  return (
    <Card
      title="Logs"
      class="logs"
      aside={<Status hearing={hearing} shown={lines.length} of={all.length} />}
    >
      {all.length > 0 && (
        <div class="log-tools">
          <input
            type="search"
            placeholder="Filter lines"
            aria-label="Filter lines"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <select
            aria-label="Level"
            value={least}
            onChange={(event) => setLeast(event.currentTarget.value as Level)}
          >
            {LEAST.map(([level, name]) => (
              <option key={level} value={level}>
                {name}
              </option>
            ))}
          </select>
          {!isOver && (
            <label class="switch">
              <input
                type="checkbox"
                role="switch"
                checked={follows}
                onChange={(event) => setFollows(event.currentTarget.checked)}
              />
              Follow
            </label>
          )}
          <Copy text={() => asText(lines)} label="Copy the lines shown" />
          <Button
            icon="download"
            tone="quiet"
            small
            label="Download all lines as text"
            onClick={() => attempt(() => download(task.id), "")}
          />
        </div>
      )}
      {lines.length > 0 ? (
        <Lines
          lines={lines}
          earlier={isFiltered ? 0 : log.earlier.value}
          gaps={!isFiltered}
          attempts={task.attempts}
          follows={follows}
          setFollows={setFollows}
        />
      ) : (
        <p class="log-nothing">
          {all.length ? "No line matches." : "Nothing yet. What its body says appears here at once."}
        </p>
      )}
    </Card>
  );
}

const HEARING: Record<Hearing, string> = {
  connecting: "connecting",
  live: "live",
  lost: "not connected, trying again",
  over: "",
};

function Status({ hearing, shown, of }: { hearing: Hearing; shown: number; of: number }) {
  const count = shown === of ? plural(of, "line") : `${number(shown)} of ${plural(of, "line")}`;
  return (
    <span class={`log-status is-${hearing}`}>
      {of > 0 && <span>{count}</span>}
      {HEARING[hearing] && (
        <span>
          <i class="dot" /> {HEARING[hearing]}
        </span>
      )}
    </span>
  );
}

interface LinesProps {
  lines: Said[];
  earlier: number;
  gaps: boolean;
  attempts: Attempt[];
  follows: boolean;
  setFollows: (follows: boolean) => void;
}

const NEAR_END = 8; // pixels

function Lines({ lines, earlier, gaps, attempts, follows, setFollows }: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const top = useRef(0);
  useLayoutEffect(() => {
    if (follows) box.current!.scrollTop = box.current!.scrollHeight;
  }, [lines, follows]);

  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (isAtEnd) setFollows(true);
    else if (scrollTop < top.current) setFollows(false);
    top.current = scrollTop;
  };
  let before = 0;
  return (
    <div
      ref={box}
      class="lines"
      role="region"
      aria-label="Lines"
      tabIndex={0}
      onScroll={scrolled}
    >
      {earlier > 0 && (
        <p class="log-gap">{plural(earlier, "earlier line")} not shown; the download has them</p>
      )}
      {lines.map((line) => {
        const isFirst = line.attempt !== before;
        before = line.attempt;
        return (
          <Fragment key={`${line.attempt}.${line.number}`}>
            {isFirst && <AttemptHead attempt={line.attempt} known={attempts} />}
            {gaps && line.missing > 0 && <p class="log-gap">{dropped(line.missing)}</p>}
            {rowOf(line)}
          </Fragment>
        );
      })}
    </div>
  );
}

function AttemptHead({ attempt, known }: { attempt: number; known: Attempt[] }) {
  const found = known.find((one) => one.attempt === attempt);
  return (
    <h3>
      Attempt {attempt}
      {found && (
        <small>
          {found.outcome}
          {found.node && ` · ${found.node}`}
        </small>
      )}
    </h3>
  );
}

/** A line never changes, so neither does its row: what is the same is not compared again. */
const rows = new WeakMap<Said, preact.VNode>();
function rowOf(line: Said): preact.VNode {
  const made = rows.get(line) ?? <Row line={line} />;
  rows.set(line, made);
  return made;
}

function Row({ line }: { line: Said }) {
  return (
    <div class={`line ${line.level}`}>
      <time dateTime={line.at} title={`${moment(line.at)} (${line.at})`}>
        {time(line.at)}
      </time>
      <b>{line.level}</b>
      <span>{harmless(line.text)}</span>
    </div>
  );
}

async function download(id: string): Promise<void> {
  const url = URL.createObjectURL(
    new Blob([asText(await wholeLog(id))], { type: "text/plain;charset=utf-8" }),
  );
  const link = document.createElement("a");
  link.href = url;
  link.download = `${id.replace(/[^\w.-]/g, "_")}.log`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
