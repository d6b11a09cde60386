/** Chooses tasks by the time of their creation. */

import { CHOICES, chosen, createdIn, customOf, fromField, toField } from "../created";
import { go, query, withQuery } from "../router";

const CUSTOM = "custom";

export function CreatedFilter() {
  const params = query.value;
  const choice = chosen(params);
  const set = (changes: { within?: string; since?: string; until?: string }) => {
    const none = { within: null, since: null, until: null, cursor: null };
    go(withQuery({ ...none, ...changes }), "replace");
  };
  const { since, until } = createdIn(params);
  const choose = (value: string) =>
    set(value === CUSTOM ? { since: since ?? customOf(params) } : { within: value });
  const isBackwards = since && until && since > until;
  return (
    <>
      <select
        aria-label="Created"
        class={choice ? "set" : ""}
        value={choice}
        onChange={(event) => choose(event.currentTarget.value)}
      >
        <option value="">Created any time</option>
        {CHOICES.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
        <option value={CUSTOM}>From … to …</option>
      </select>
      {choice === CUSTOM && (
        <span class="between">
          <Moment
            label="Created from"
            at={since}
            set={(at) => set({ since: at, until: until ?? "" })}
          />
          <span class="faint">to</span>
          <Moment
            label="Created to"
            at={until}
            set={(at) => set({ since: since ?? "", until: at })}
          />
        </span>
      )}
      {isBackwards && (
        <span class="bad" role="alert">
          It ends before it begins.
        </span>
      )}
    </>
  );
}

interface MomentProps {
  label: string;
  at: string | undefined;
  set: (at: string) => void;
}

function Moment({ label, at, set }: MomentProps) {
  return (
    <input
      key={at}
      type="datetime-local"
      step="1"
      aria-label={label}
      title={`${label}, in your time`}
      defaultValue={toField(at)}
      onChange={(event) => set(fromField(event.currentTarget.value))}
    />
  );
}
