/** Workers: which are alive, what they carry, what they use. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { bytes, duration, number } from "../format";
import { useResource } from "../resource";
import { attempt, changed, mayAct } from "../store";
import type { Node } from "../types";
import { FormDialog } from "../ui/dialog";
import { Button, Card, Empty, Failed, Loading, Meter, When } from "../ui/parts";
import { Head } from "../ui/shell";

const TONES: Record<Node["state"], string> = {
  registering: "pending",
  ready: "completed",
  suspect: "queued",
  draining: "paused",
  down: "cancelled",
  quarantined: "failed",
};

export function WorkersPage() {
  const nodes = useResource("nodes", api.nodes, changed.nodes);
  const [draining, setDraining] = useState<Node | null>(null);
  const items = nodes.data?.items ?? [];
  const live = items.filter((node) => node.state !== "down");
  const slots = live.reduce((sum, node) => sum + node.slots, 0);
  const running = live.reduce((sum, node) => sum + node.running, 0);
  return (
    <>
      <Head title="Workers">
        {live.length > 0 && (
          <span class="faint">
            {number(running)} of {number(slots)} slots taken
          </span>
        )}
      </Head>
      <Card class="flush">
        {nodes.problem ? (
          <Failed problem={nodes.problem} retry={nodes.reload} />
        ) : !nodes.data ? (
          <Loading />
        ) : items.length ? (
          <Table nodes={items} onDrain={setDraining} />
        ) : (
          <Empty icon="workers" title="No worker">
            Start one with <code>taskyard worker app:yard</code>.
          </Empty>
        )}
      </Card>
      {draining && (
        <FormDialog
          title={`Drain ${draining.id}?`}
          action="Drain"
          onSubmit={async () => {
            const done = await attempt(() => api.drain(draining.id), "It takes no more tasks");
            nodes.reload();
            return done;
          }}
          onClose={() => setDraining(null)}
        >
          <p>It finishes what it runs, takes nothing new, and ends.</p>
        </FormDialog>
      )}
    </>
  );
}

function Table({ nodes, onDrain }: { nodes: Node[]; onDrain: (node: Node) => void }) {
  return (
    <div class="scroll">
      <table class="stacks">
        <thead>
          <tr>
            <th>State</th>
            <th>Worker</th>
            <th>Slots</th>
            <th class="right">CPU</th>
            <th class="right">Memory</th>
            <th>Kinds</th>
            <th class="right">Lease</th>
            <th class="right">Since</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.id} data-row tabIndex={-1} class={node.state === "down" ? "gone" : ""}>
              <td>
                <span class={`badge ${TONES[node.state]}`}>
                  <i class="dot" />
                  {node.state}
                </span>
              </td>
              <td>
                <b>{node.id}</b>
                {node.host && (
                  <small class="faint block nowrap" title={node.host}>
                    {node.host.split(" ")[0]} · pid {node.pid}
                  </small>
                )}
              </td>
              <td data-label="Slots">
                <span class="progress">
                  <Meter value={node.running} of={node.slots} />
                  <span>
                    {node.running}
                    <span class="faint"> / {node.slots}</span>
                  </span>
                </span>
              </td>
              <td data-label="CPU" class="right">
                {node.usage ? `${(node.usage.cpu * 100).toFixed(0)} %` : "–"}
              </td>
              <td data-label="Memory" class="right">
                {node.usage ? bytes(node.usage.memory) : "–"}
              </td>
              <td data-label="Kinds" class="chips">
                {[...node.kinds.slice(0, 6), ...node.capabilities].map((name) => (
                  <span key={name} class="chip">
                    {name}
                  </span>
                ))}
                {node.kinds.length > 6 && <span class="faint">+{node.kinds.length - 6}</span>}
              </td>
              <td data-label="Lease" class={`right ${node.lease_left < 0 ? "bad" : ""}`}>
                {node.lease_left < 0 ? "ended" : duration(node.lease_left)}
              </td>
              <td data-label="Since" class="right">
                <When at={node.registered_at} />
              </td>
              <td class="right">
                {mayAct.value && node.state === "ready" && (
                  <Button small onClick={() => onDrain(node)}>
                    Drain
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
