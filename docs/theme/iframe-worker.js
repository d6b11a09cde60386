// Search runs in a worker, and browsers start none for a page from the disk. There, a hidden frame
// takes its place: it loads the same script and is spoken to in the same way.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #loaded;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      this.#loaded = new Promise((loaded, failed) => {
        script.onload = loaded;
        script.onerror = failed;
      });
      script.src = url;
      inside.document.body.append(script);
    }

    async postMessage(data) {
      await this.#loaded;
      const inside = this.#frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
