/** The dashboard. */

import "uplot/dist/uPlot.min.css";
import "./style/index.css";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, Problem } from "./api";
import { connect, disconnect } from "./live";
import { AuditPage } from "./pages/audit";
import { CronPage } from "./pages/cron";
import { KindsPage } from "./pages/kinds";
import { LanesPage } from "./pages/lanes";
import { LoginPage } from "./pages/login";
import { OverviewPage } from "./pages/overview";
import { TaskPage } from "./pages/task";
import { TasksPage } from "./pages/tasks";
import { WorkersPage } from "./pages/workers";
import { go, path } from "./router";
import { connection, session } from "./store";
import { listen } from "./ui/keyboard";
import { Empty } from "./ui/parts";
import { Help, PAGES, Shell } from "./ui/shell";

function Page() {
  const [page, ...rest] = path.value.split("/");
  switch (page) {
    case "":
      return <OverviewPage />;
    case "tasks": {
      const id = decodeURIComponent(rest.join("/"));
      return id ? <TaskPage key={id} id={id} /> : <TasksPage />;
    }
    case "lanes":
      return <LanesPage />;
    case "workers":
      return <WorkersPage />;
    case "cron":
      return <CronPage />;
    case "kinds":
      return <KindsPage />;
    case "audit":
      return <AuditPage />;
    default:
      return <Empty icon="search" title="There is no such page" />;
  }
}

/** Find out who is here, however long the server takes to answer. */
async function begin(): Promise<void> {
  try {
    session.value = await api.session();
  } catch (error) {
    if (error instanceof Problem && error.status === 401) session.value = null;
    else {
      connection.value = "lost";
      setTimeout(begin, 2000);
    }
  }
}

function Unreachable() {
  return (
    <main class="login">
      <Empty icon="alert" title="Not connected">
        The server does not answer. Trying again…
      </Empty>
    </main>
  );
}

function App() {
  const [help, setHelp] = useState(false);
  const known = session.value;

  useEffect(() => {
    void begin();
  }, []);
  useEffect(() => {
    if (!known) return;
    connect();
    const unlisten = listen({
      help: () => setHelp(true),
      visit: (key) => {
        const page = PAGES.find((page) => page.key === key);
        if (page) go(page.to);
      },
    });
    return () => {
      disconnect();
      unlisten();
    };
  }, [known?.name, known?.role]);

  if (known === undefined) return connection.value === "lost" ? <Unreachable /> : null;
  if (known === null) return <LoginPage />;
  return (
    <Shell>
      <Page />
      {help && <Help onClose={() => setHelp(false)} />}
    </Shell>
  );
}

render(<App />, document.getElementById("app")!);
