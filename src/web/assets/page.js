// What htmx leaves to us: whether the page is live, an emptied line after a message is sent, and staying at the end of a chat.
(() => {
  const light = (on) => {
    document.body.dataset.live = on ? "on" : "off";
    const at = document.getElementById("light");
    if (at) at.textContent = on ? "live" : "connecting";
  };
  document.addEventListener("htmx:sse:after:connection", () => light(true));
  document.addEventListener("htmx:sse:before:connection", () => light(false));
  document.addEventListener("htmx:sse:error", () => light(false));
  document.addEventListener("htmx:sse:close", () => light(false));

  const failed = (why) => {
    const said = document.getElementById("said");
    if (!said) return;
    const box = document.createElement("div");
    box.className = "outcome failed";
    box.dataset.failed = "";
    box.textContent = (why ?? "").slice(0, 400);
    said.replaceChildren(box);
  };

  // A session that has ended: what stands here is old, and the whole page says how to come in again. Any other refusal is
  // said above the page, which stays as it is.
  document.addEventListener("htmx:response:error", (event) => {
    const { response, text } = event.detail.ctx;
    if (response.status === 401) return location.reload();
    if (event.detail.ctx.request.method === "GET") return;
    const html = (response.headers.get("content-type") ?? "").includes("html");
    const why = html ? new DOMParser().parseFromString(text, "text/html").querySelector("main")?.textContent : text;
    failed(why);
  });

  // No answer came, or it was cut. What was typed stays.
  document.addEventListener("htmx:error", (event) => {
    const { ctx, error } = event.detail;
    if (!ctx || ctx.request.method === "GET") return;
    failed(`No answer came (${error?.message ?? error}). Look whether it was done before you send it again.`);
  });

  document.addEventListener("htmx:finally:request", (event) => {
    const form = event.target.closest?.("form[data-clear]");
    if (form && event.detail.ctx.response?.status < 400 && !document.querySelector("#said [data-failed]")) form.reset();
  });

  // Enter sends, Shift and Enter begin a line.
  document.addEventListener("keydown", (event) => {
    const field = event.target;
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !field.matches?.("textarea[data-enter]")) return;
    event.preventDefault();
    field.form.requestSubmit();
  });

  // On a phone each row of a table stands by itself, and its cells say which column they are of.
  const label = () => {
    for (const table of document.querySelectorAll(".scroll table")) {
      const heads = [...table.querySelectorAll("thead th")].map((head) => (head.querySelector(".hidden") ? "" : head.textContent));
      if (heads.length === 0) continue;
      table.classList.add("cards");
      for (const row of table.querySelectorAll("tbody tr")) {
        [...row.cells].forEach((cell, n) => { if (heads[n]) cell.dataset.of ??= heads[n]; });
      }
    }
  };
  document.addEventListener("DOMContentLoaded", label);
  document.addEventListener("htmx:after:swap", label);

  // A chat is read from its end.
  let atEnd = true;
  const end = () => document.querySelector("[data-end]");
  const toEnd = () => end()?.scrollIntoView({ block: "end" });
  addEventListener("scroll", () => {
    atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  }, { passive: true });
  document.addEventListener("DOMContentLoaded", () => { if (!location.hash) toEnd(); });
  document.addEventListener("htmx:after:swap", () => { if (atEnd) toEnd(); });
})();
