/** Dialogs: the browser's own, so that focus and Esc are as people know them. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./parts";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current!;
    shown.showModal();
    return () => shown.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div class="dialog">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface FormProps extends DialogProps {
  action: string;
  tone?: "primary" | "danger";
  disabled?: boolean;
  /** Answers whether it was done; then the dialog closes. */
  onSubmit: () => Promise<boolean>;
}

export function FormDialog({ action, tone, disabled, onSubmit, children, ...rest }: FormProps) {
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const done = await onSubmit();
    setBusy(false);
    if (done) rest.onClose();
  };
  return (
    <Dialog {...rest}>
      <form onSubmit={submit}>
        {children}
        <footer>
          <Button onClick={rest.onClose}>Close</Button>
          <Button type="submit" tone={tone ?? "primary"} disabled={disabled || busy}>
            {action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
