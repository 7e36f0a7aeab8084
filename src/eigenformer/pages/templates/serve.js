"use strict";
(() => {
  const model = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const AT_ONCE = 60;
  let asked = null; // the last request, for the download
  let answer = null, shown = 0;

  // Texts are only ever set as texts.
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const number = (value, digits = 4) => Number(value.toPrecision(digits)).toString().replace("-", "−");
  const say = (text) => {
    byId("problem").textContent = text;
    byId("problem").hidden = !text;
  };
  const post = async (request, form) => {
    const query = new URLSearchParams({ ...request.query, format: form });
    const response = await fetch(`${request.path}?${query}`, {
      method: "POST", headers: { "Content-Type": request.type }, body: request.body,
    });
    if (response.ok) return response;
    let reason = `the server answered with status ${response.status}`;
    try {
      reason = (await response.json()).detail || reason;
    } catch { /* not JSON: the status must do */ }
    throw new Error(reason);
  };

  const busy = (yes) => {
    for (const button of document.querySelectorAll("button")) button.disabled = yes;
  };
  const attempt = async (work) => {
    say("");
    busy(true);
    try {
      await work();
    } catch (error) {
      say(error instanceof TypeError ? "The server cannot be reached: was it stopped?" : error.message);
    } finally {
      busy(false);
    }
  };

  const ask = (request) => attempt(async () => {
    answer = await (await post(request, "json")).json();
    asked = request;
    shown = 0;
    byId("rows").replaceChildren();
    const good = answer.rows.filter((row) => row.values !== null).length;
    byId("summary").textContent = `for ${good} of ${answer.rows.length} molecules`;
    byId("results").hidden = false;
    showMore();
    if (window.matchMedia("(max-width: 61.9rem)").matches) byId("results").scrollIntoView();
  });

  // The columns of a prediction as lines: [name, text, class]. The ends of an interval are one line.
  const level = `${Math.round(1000 * model.level) / 10} %`;
  const several = model.values.filter((name) => name.startsWith("low_")).length > 1;
  const line = (values, name) => {
    const value = values[name], [, kind, rest] = /^([a-z]+)_(.*)$/s.exec(name) || [null, name, ""];
    const text = typeof value === "number" ? number(value) : value || "none";
    if (kind === "predicted") return [rest, text, "value"];
    if (kind === "probability") return [`probability of ${rest}`, text, "value"];
    if (kind === "low") {
      const ends = [value, values[`high_${rest}`]].map((end) => number(end, 3));
      return [several ? `${rest}, ${level} interval` : `${level} interval`, ends.join(" to "), ""];
    }
    if (kind === "answers") return [`${rest}, answers at ${level}`, text, ""];
    if (kind === "classes") return [`classes at ${level}`, text, ""];
    return [name, text, ""];
  };
  const lines = (values) =>
    model.values.filter((name) => !name.startsWith("high_")).map((name) => line(values, name));
  const listed = (className, pairs) => {
    const list = make("dl", className);
    for (const [name, text, kind] of pairs) list.append(make("dt", "", name), make("dd", kind, text));
    return list;
  };
  const card = (row) => {
    const item = make("li");
    const query = new URLSearchParams({ smiles: row.smiles.trim() });
    if (row.values !== null) {
      const picture = make("img");
      picture.loading = "lazy";
      picture.alt = "";
      picture.src = `/api/picture?${query}`;
      picture.addEventListener("error", () => picture.remove());
      item.append(picture);
    }
    item.append(make("div", "smiles", row.smiles || "(empty)"));
    if (row.values !== null) item.append(listed("values", lines(row.values)));
    else item.append(make("p", "reason", row.reason));
    const cells = answer.columns.map((name, i) => [name, row.cells[i], ""]);
    if (cells.length) item.append(listed("cells", cells));
    if (row.values !== null && model.layers > 0) {
      const link = make("a", "heads", `Where ${model.layers} × ${model.heads} heads look`);
      link.href = `/explain?${query}`;
      link.target = "_blank";
      link.rel = "noopener";
      item.append(link);
    }
    return item;
  };
  const showMore = () => {
    const rows = answer.rows.slice(shown, shown + AT_ONCE);
    byId("rows").append(...rows.map(card));
    shown += rows.length;
    byId("more").hidden = shown === answer.rows.length;
    byId("more").textContent = `Show more (${answer.rows.length - shown} left)`;
  };

  const askTable = (file) => {
    if (file.size > model.request_bytes) {
      say(`${file.name}: ${file.size} bytes, at most ${model.request_bytes} are allowed`);
      return;
    }
    const column = byId("column").value.trim();
    const query = column ? { smiles: column } : {};
    ask({ path: "/api/table", query, type: "text/csv", body: file });
  };
  const download = () => attempt(async () => {
    const link = make("a");
    link.href = URL.createObjectURL(await (await post(asked, "csv")).blob());
    link.download = "predictions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });

  if (byId("smiles")) {
    const predict = () => {
      const smiles = byId("smiles").value.split("\n").map((line) => line.trim()).filter(Boolean);
      if (!smiles.length) {
        say("Enter at least one SMILES.");
        return;
      }
      ask({ path: "/api/predict", query: {}, type: "application/json", body: JSON.stringify({ smiles }) });
    };
    byId("predict").addEventListener("click", predict);
    byId("smiles").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) predict();
    });
    byId("examples").addEventListener("click", (event) => {
      byId("smiles").value = event.currentTarget.dataset.text;
      predict();
    });
  }
  byId("more").addEventListener("click", showMore);
  byId("download").addEventListener("click", download);
  byId("file").addEventListener("change", (event) => {
    if (event.target.files.length) askTable(event.target.files[0]);
    event.target.value = ""; // the same file again is a change, too
  });
  const drop = byId("drop");
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  drop.addEventListener("dragover", () => drop.classList.add("over"));
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) askTable(event.dataTransfer.files[0]);
  });
})();
