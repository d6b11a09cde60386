/** Log in with a token. It goes into a cookie that no script can read. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { session } from "../store";
import { Icon } from "../ui/icons";
import { Button } from "../ui/parts";
import { Mark } from "../ui/shell";

export function LoginPage() {
  const [token, setToken] = useState("");
  const [refused, setRefused] = useState("");
  useEffect(() => {
    document.title = "Log in · Taskyard";
  }, []);

  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      session.value = await api.login(token.trim());
    } catch (error) {
      setRefused(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <Mark />
        <h1>Taskyard</h1>
        <p>Log in with an access token. The server printed one when it was first started.</p>
        <input
          type="password"
          name="token"
          aria-label="Access token"
          placeholder="ty1_…"
          autocomplete="current-password"
          autofocus
          required
          value={token}
          onInput={(event) => {
            setToken(event.currentTarget.value);
            setRefused("");
          }}
        />
        {refused && (
          <p class="refused" role="alert">
            <Icon name="alert" /> {refused}
          </p>
        )}
        <Button type="submit" tone="primary">
          Log in
        </Button>
        <small class="faint">
          Another one: <code>taskyard token add NAME --role operator</code>
        </small>
      </form>
    </main>
  );
}
