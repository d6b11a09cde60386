/** What can be done with many tasks at once: those selected, or all that match. */

import { number } from "../format";
import { type Action, type Filter, STATES, type State, type TaskSummary } from "../types";
import { Button } from "./parts";

/** Which actions can do something in which state. */
const POSSIBLE: Record<Action, readonly State[]> = {
  cancel: ["pending", "queued", "running", "paused"],
  pause: ["pending", "queued", "running"],
  resume: ["paused"],
  retry: ["failed", "cancelled"],
  prioritize: [],
};
const ICONS = { cancel: "stop", pause: "pause", resume: "play", retry: "retry" } as const;

interface ActionsProps {
  count: number;
  filter: Filter;
  tasks: TaskSummary[];
  act: (action: Action) => void;
}

export function BulkActions({ count, filter, tasks, act }: ActionsProps) {
  if (!count && !Object.keys(filter).length) return null;
  const states = count ? tasks.map((task) => task.state) : filter.state ? [filter.state] : STATES;
  const may = (action: Action) => states.some((state) => POSSIBLE[action].includes(state));
  const shown = (["retry", "resume", "pause", "cancel"] as const).filter(may);
  if (!shown.length) return null;
  return (
    <div class="actions">
      <span class="faint">{count ? `${number(count)} selected` : "All that match"}</span>
      {shown.map((action) => (
        <Button
          key={action}
          icon={ICONS[action]}
          small
          tone={action === "cancel" ? "danger" : undefined}
          onClick={() => act(action)}
        >
          {action[0]!.toUpperCase() + action.slice(1)}
          {count ? "" : " all"}
        </Button>
      ))}
    </div>
  );
}
