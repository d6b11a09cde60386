/** Dialogs about a lane: pause it for a reason and a time, change its rules. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { attempt } from "../store";
import type { Lane, LaneChange, Rate } from "../types";
import { FormDialog } from "./dialog";
import { Field } from "./parts";

interface LaneDialogProps {
  lane: Lane;
  reload: () => void;
  onClose: () => void;
}

const FOR = [
  ["", "Until somebody resumes it"],
  ["900", "15 minutes"],
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
] as const;

export function PauseDialog({ lane, reload, onClose }: LaneDialogProps) {
  const [reason, setReason] = useState("");
  const [seconds, setSeconds] = useState("");
  const pause = async () => {
    const done = await attempt(
      () => api.pauseLane(lane.name, reason.trim(), seconds ? Number(seconds) : null),
      `Lane ${lane.name} is paused`,
    );
    reload();
    return done;
  };
  return (
    <FormDialog title={`Pause ${lane.name}`} action="Pause" onSubmit={pause} onClose={onClose}>
      <p>Nothing new starts in this lane; what runs goes on, and tasks can still be enqueued.</p>
      <Field label="Reason">
        <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </Field>
      <Field label="For">
        <select value={seconds} onChange={(event) => setSeconds(event.currentTarget.value)}>
          {FOR.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </Field>
    </FormDialog>
  );
}

export function LaneDialog({ lane, reload, onClose }: LaneDialogProps) {
  const [depth, setDepth] = useState(lane.max_depth?.toString() ?? "");
  const [order, setOrder] = useState(lane.order);
  const [ageing, setAgeing] = useState(lane.ageing?.toString() ?? "");
  const [starts, setStarts] = useState(lane.rate?.starts.toString() ?? "");
  const [seconds, setSeconds] = useState((lane.rate?.seconds ?? 1).toString());
  const [burst, setBurst] = useState((lane.rate?.burst ?? 1).toString());
  const figure = (text: string) => (text.trim() === "" ? null : Number(text));
  const save = async () => {
    const rate: Rate | null = starts
      ? { starts: Number(starts), seconds: Number(seconds), burst: Number(burst) }
      : null;
    const change: LaneChange = { max_depth: figure(depth), rate, ageing: figure(ageing) };
    if (order !== lane.order) change.order = order;
    const done = await attempt(() => api.changeLane(lane.name, change), `Lane ${lane.name} saved`);
    reload();
    return done;
  };
  const text = (value: string, set: (value: string) => void) => (
    <input
      type="number"
      min="0"
      step="any"
      placeholder="none"
      value={value}
      onInput={(event) => set(event.currentTarget.value)}
    />
  );
  return (
    <FormDialog title={`Lane ${lane.name}`} action="Save" onSubmit={save} onClose={onClose}>
      <Field label="Order">
        <select
          value={order}
          onChange={(event) => setOrder(event.currentTarget.value as Lane["order"])}
        >
          <option value="priority">By priority, then arrival</option>
          <option value="fifo">First in, first out</option>
          <option value="fair">Fair: groups in rotation</option>
        </select>
      </Field>
      <div class="fields">
        <Field label="Most waiting">{text(depth, setDepth)}</Field>
        <Field label="Ageing (s a step)">{text(ageing, setAgeing)}</Field>
      </div>
      <div class="fields">
        <Field label="Starts">{text(starts, setStarts)}</Field>
        <Field label="in seconds">{text(seconds, setSeconds)}</Field>
        <Field label="burst">{text(burst, setBurst)}</Field>
      </div>
    </FormDialog>
  );
}
