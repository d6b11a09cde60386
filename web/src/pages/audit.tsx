/** Audit: who did what to which thing, and what the system did by itself. */

import { api } from "../api";
import { moment } from "../format";
import { useResource } from "../resource";
import { go, Link, query, toLane, toTask, withQuery } from "../router";
import { changed } from "../store";
import type { Audited } from "../types";
import { Button, Card, Empty, Failed, Loading } from "../ui/parts";
import { Head } from "../ui/shell";

const LIMIT = 50;

export function AuditPage() {
  const before = query.value.get("before");
  const found = useResource(
    `audit ${before}`,
    () => api.audit(before ? Number(before) : null, LIMIT),
    changed.stats,
    before !== null,
  );
  const items = found.data?.items ?? [];
  const last = items.length === LIMIT ? items[items.length - 1]!.no : null;
  return (
    <>
      <Head title="Audit" />
      <Card class="flush">
        {found.problem ? (
          <Failed problem={found.problem} retry={found.reload} />
        ) : !found.data ? (
          <Loading rows={12} />
        ) : items.length ? (
          <div class="scroll">
            <table class="stacks pairs">
              <thead>
                <tr>
                  <th>When</th>
                  <th>Who</th>
                  <th>Did</th>
                  <th>To</th>
                  <th>Detail</th>
                </tr>
              </thead>
              <tbody>
                {items.map((line) => (
                  <tr key={line.no} data-row tabIndex={-1}>
                    <td class="nowrap faint">
                      <time dateTime={line.at}>{moment(line.at)}</time>
                    </td>
                    <td data-label="Who" class={line.actor === "system" ? "faint" : "strong"}>
                      {line.actor}
                    </td>
                    <td data-label="Did">{line.action}</td>
                    <td data-label="To">
                      <Subject line={line} />
                    </td>
                    <td data-label="Detail" class="detail">
                      {line.detail}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : (
          <Empty icon="audit" title="Nothing has been done yet">
            Whatever people and the system do to tasks, lanes and workers is kept here.
          </Empty>
        )}
        {(before || last !== null) && (
          <footer class="pager">
            <Button
              icon="left"
              small
              disabled={!before}
              onClick={() => go(withQuery({ before: null }))}
            >
              Newest
            </Button>
            <Button
              small
              disabled={last === null}
              onClick={() => go(withQuery({ before: String(last) }))}
            >
              Older
            </Button>
          </footer>
        )}
      </Card>
    </>
  );
}

function Subject({ line }: { line: Audited }) {
  const at = line.subject.indexOf(":");
  const [sort, name] = at < 0 ? ["", ""] : [line.subject.slice(0, at), line.subject.slice(at + 1)];
  if (sort === "task")
    return (
      <Link to={toTask(name)}>
        <code>{name}</code>
      </Link>
    );
  if (sort === "lane") return <Link to={toLane(name)}>lane {name}</Link>;
  return <>{sort ? `${sort} ${name}` : line.subject}</>;
}
