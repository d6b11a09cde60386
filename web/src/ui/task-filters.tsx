/** What narrows the list of tasks down; all of it lives in the URL. */

import { api } from "../api";
import { short } from "../format";
import { useResource } from "../resource";
import { go, Link, withQuery } from "../router";
import { yard } from "../store";
import { type Filter, STATES, type State } from "../types";
import { CreatedFilter } from "./created-filter";

export function StateTabs({ chosen }: { chosen: State | undefined }) {
  const counts = yard.value?.counts ?? {};
  const total = STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  return (
    <nav class="tabs" aria-label="State">
      <Link to={withQuery({ state: null, cursor: null })} current={!chosen}>
        All <b>{short(total)}</b>
      </Link>
      {STATES.map((state) => (
        <Link
          key={state}
          to={withQuery({ state, cursor: null })}
          current={state === chosen}
          class={state}
        >
          <i class="dot" />
          {state} <b>{short(counts[state] ?? 0)}</b>
        </Link>
      ))}
    </nav>
  );
}

export function Filters({ filter, q }: { filter: Filter; q: string }) {
  const lanes = useResource("lanes", api.lanes);
  const set = (name: string, value: string) =>
    go(withQuery({ [name]: value.trim() || null, cursor: null }), "replace");
  const kinds = [...new Set([...(yard.value?.kinds ?? []), ...(filter.kind ? [filter.kind] : [])])];
  const names = lanes.data?.items.map((lane) => lane.name) ?? [];
  if (filter.lane && !names.includes(filter.lane)) names.push(filter.lane);
  const any = q || filter.kind || filter.lane || filter.key || filter.since || filter.until;
  return (
    <div class="filters">
      <Chooser
        label="Kind"
        any="Any kind"
        value={filter.kind}
        choices={kinds.sort()}
        onChoose={(value) => set("kind", value)}
      />
      <Chooser
        label="Lane"
        any="Any lane"
        value={filter.lane}
        choices={names.sort()}
        onChoose={(value) => set("lane", value)}
      />
      <input
        key={filter.key}
        class={filter.key ? "set" : ""}
        placeholder="Key, as in sub:42"
        aria-label="Key"
        defaultValue={filter.key ?? ""}
        onChange={(event) => set("key", event.currentTarget.value)}
      />
      <CreatedFilter />
      {q && (
        <span class="chip">
          “{q}”
          <button type="button" aria-label="Forget the search" onClick={() => set("q", "")}>
            ×
          </button>
        </span>
      )}
      {any && (
        <Link to={filter.state ? `tasks?state=${filter.state}` : "tasks"} class="linklike">
          Clear
        </Link>
      )}
    </div>
  );
}

interface ChooserProps {
  label: string;
  any: string;
  value: string | undefined;
  choices: string[];
  onChoose: (value: string) => void;
}

function Chooser({ label, any, value, choices, onChoose }: ChooserProps) {
  return (
    <select
      aria-label={label}
      class={value ? "set" : ""}
      value={value ?? ""}
      onChange={(event) => onChoose(event.currentTarget.value)}
    >
      <option value="">{any}</option>
      {choices.map((choice) => (
        <option key={choice} value={choice}>
          {choice}
        </option>
      ))}
    </select>
  );
}
