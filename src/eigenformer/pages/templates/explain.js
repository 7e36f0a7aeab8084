"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { layers, heads, nodes, names, positions, edges } = data;
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const floats = (text) => new Float32Array(bytes(text).buffer);
  const steps = bytes(data.weights), peaks = floats(data.peaks);
  const waves = new Int8Array(bytes(data.waves).buffer);
  const phi2 = bytes(data.phi2), low = floats(data.phi2Low), high = floats(data.phi2High);
  const samples = phi2.length / (layers * heads);
  const state = { layer: 0, head: 0, node: null, wave: null };

  const byId = (id) => document.getElementById(id);
  const atoms = [...document.querySelectorAll(".stage .atom")];
  const arrows = document.querySelector(".stage .arrows");
  const svg = (tag, attributes, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    if (parent) parent.append(element);
    return element;
  };
  // As many digits as the steps of the weights can bear.
  const percent = (w) => (w > 0 && w < 0.0005 ? "<0.1 %" : `${(100 * w).toFixed(w < 0.0995 ? 1 : 0)} %`);

  // Attention: of one node, or what all nodes give on average.
  const average = new Map();
  const row = (place, node) => {
    const start = (place * nodes + node) * nodes, peak = peaks[place * nodes + node];
    return Float32Array.from({ length: nodes }, (_, j) => peak * (steps[start + j] / 255) ** 2);
  };
  const weights = (layer, head) => {
    const place = layer * heads + head;
    if (state.node !== null) return row(place, state.node);
    if (!average.has(place)) {
      const total = new Float32Array(nodes);
      for (let i = 0; i < nodes; i++) row(place, i).forEach((w, j) => (total[j] += w / nodes));
      average.set(place, total);
    }
    return average.get(place);
  };

  // Colours: three stops of a scale, read from the style sheet, which knows light and dark.
  let amount, signed, ground;
  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => {
      const hex = style.getPropertyValue(name).trim();
      return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    };
    amount = ["--amount-0", "--amount-1", "--amount-2"].map(colour);
    signed = ["--minus", "--zero", "--plus"].map(colour);
    ground = style.getPropertyValue("--bond").trim();
  };
  const mix = (stops, at) => {
    const x = Math.min(1, Math.max(0, at)) * 2, i = x < 1 ? 0 : 1;
    return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (x - i)));
  };
  const isDark = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b < 140;
  const css = (rgb) => `rgb(${rgb.join(" ")})`;

  // The scale's end: the largest weight, but never so low that looking everywhere seems a choice.
  const end = (values) => Math.max(...values, Math.min(1, 4 / nodes));

  const paintPicture = () => {
    const isWave = state.wave !== null;
    const values = isWave
      ? Float32Array.from({ length: nodes }, (_, i) => waves[state.wave * nodes + i] / 127)
      : weights(state.layer, state.head);
    const largest = isWave ? 1 : end(values);
    atoms.forEach((atom, i) => {
      const rgb = isWave ? mix(signed, (values[i] + 1) / 2) : mix(amount, values[i] / largest);
      atom.firstChild.style.fill = css(rgb);
      atom.classList.toggle("on-dark", isDark(rgb));
      atom.classList.toggle("on-light", !isDark(rgb));
      atom.setAttribute("aria-pressed", String(!isWave && i === state.node));
    });
    byId("scale").className = `scale ${isWave ? "signed" : "amount"}`;
    byId("legend-low").textContent = isWave ? "−" : "0";
    byId("legend-high").textContent = isWave ? "+" : percent(largest);
    byId("picture-title").textContent = isWave
      ? `Eigenvector of λ = ${data.eigenvalues[state.wave]}`
      : `Layer ${state.layer}, head ${state.head}`;
    paintArrows(isWave ? null : values);
    tell(isWave ? null : values);
  };

  const order = (values) => [...values.keys()].sort((a, b) => values[b] - values[a]);

  const paintArrows = (values) => {
    arrows.replaceChildren();
    if (values === null || state.node === null) return;
    const at = (i) => [positions[2 * i], positions[2 * i + 1]];
    const least = Math.max(0.05, 1.5 / nodes); // less is not looking there, but everywhere
    const targets = order(values).filter((j) => j !== state.node && values[j] >= least).slice(0, 3);
    for (const j of targets) {
      const [x0, y0] = at(state.node), [x1, y1] = at(j);
      const dx = x1 - x0, dy = y1 - y0, length = Math.hypot(dx, dy) || 1;
      const bend = Math.min(34, length / 4), width = 1.5 + 6 * values[j];
      const cx = (x0 + x1) / 2 - (dy / length) * bend, cy = (y0 + y1) / 2 + (dx / length) * bend;
      // The tip stops at the rim of the disk it points to.
      const ex = x1 - cx, ey = y1 - cy, rest = Math.hypot(ex, ey) || 1;
      const ux = ex / rest, uy = ey / rest, gap = data.radius + 2, tip = 5 + width;
      const tx = x1 - ux * gap, ty = y1 - uy * gap, bx = tx - ux * tip, by = ty - uy * tip;
      svg("path", { d: `M${x0} ${y0}Q${cx} ${cy} ${bx} ${by}`, "stroke-width": width }, arrows);
      const side = 2.5 + width * 0.75;
      svg("polygon", {
        points: `${tx},${ty} ${bx - uy * side},${by + ux * side} ${bx + uy * side},${by - ux * side}`,
      }, arrows);
    }
  };

  const tell = (values) => {
    const out = byId("readout");
    out.replaceChildren();
    const strong = (text) => Object.assign(document.createElement("strong"), { textContent: text });
    if (values === null) {
      const same = data.eigenvalues.filter((v) => v === data.eigenvalues[state.wave]).length;
      const often = same > 1 ? ` This frequency occurs ${same} times: only the space of its ` +
        "eigenvectors has a meaning, each of them alone has not." : "";
      out.append(`Blue and orange are opposite signs, strong colours large values.${often}`);
      return;
    }
    const alike = Math.max(...values) < 1.05 * Math.min(...values);
    const best = order(values).slice(0, 5).filter((j) => values[j] >= 0.005);
    const list = best.map((j) => `${j === state.node ? "itself" : names[j]} ${percent(values[j])}`);
    const where = alike ? ` everywhere alike, about ${percent(1 / nodes)} each` : `: ${list.join(", ")}`;
    if (state.node === null) {
      out.append(strong(`All ${data.what}s`), ` look, on average, at${where}`.replace("at everywhere", "everywhere"));
    } else {
      out.append(strong(names[state.node]), ` looks at${where}`.replace("at everywhere", "everywhere"));
      if (data.told) out.append(document.createElement("br"), data.told[state.node]);
    }
  };

  // The overview: a small picture for each head, which is also the button that chooses it.
  const grid = byId("heads");
  grid.style.gridTemplateColumns = `2rem repeat(${heads}, minmax(0, 1fr))`;
  const label = (text) =>
    grid.append(Object.assign(document.createElement("span"), { className: "name", textContent: text }));
  label("");
  for (let head = 0; head < heads; head++) label(head);
  const buttons = [];
  for (let layer = 0; layer < layers; layer++) {
    label(layer);
    for (let head = 0; head < heads; head++) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-label", `layer ${layer}, head ${head}`);
      button.append(document.createElement("canvas"));
      button.addEventListener("click", () => choose({ layer, head, wave: null }));
      grid.append(button);
      buttons.push(button);
    }
  }

  const paintHead = (button, place) => {
    const canvas = button.firstChild, side = Math.max(16, button.clientWidth);
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(side * ratio)) canvas.width = canvas.height = Math.round(side * ratio);
    const pen = canvas.getContext("2d");
    const scale = (side - 4) / Math.max(data.width, data.height);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, side, side);
    pen.translate((side - data.width * scale) / 2, (side - data.height * scale) / 2);
    pen.strokeStyle = ground;
    pen.lineWidth = 0.5;
    if (edges.length < 8 * nodes) {
      pen.beginPath();
      for (let e = 0; e < edges.length; e += 2) {
        pen.moveTo(positions[2 * edges[e]] * scale, positions[2 * edges[e] + 1] * scale);
        pen.lineTo(positions[2 * edges[e + 1]] * scale, positions[2 * edges[e + 1] + 1] * scale);
      }
      pen.stroke();
    }
    const values = weights(Math.floor(place / heads), place % heads);
    const largest = end(values);
    const radius = Math.max(1.1, data.radius * scale * 1.25);
    for (let i = 0; i < nodes; i++) {
      pen.fillStyle = css(mix(amount, values[i] / largest));
      pen.beginPath();
      pen.arc(positions[2 * i] * scale, positions[2 * i + 1] * scale, radius, 0, 7);
      pen.fill();
    }
  };
  const paintHeads = () => {
    buttons.forEach(paintHead);
    byId("overview-from").textContent =
      state.node === null ? `all ${data.what}s, on average` : `from ${names[state.node]}`;
  };
  const markHead = () => {
    const chosen = state.layer * heads + state.head;
    buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(place === chosen));
      button.tabIndex = place === chosen ? 0 : -1;
    });
  };

  // The spectrum, with φ₂ of the chosen head above it.
  const paintSpectrum = () => {
    const box = byId("spectrum"), width = Math.max(240, box.clientWidth), height = 190;
    const left = 52, right = width - 12, top = 14, middle = 122, bottom = 166;
    const x = (value) => left + (value / 2) * (right - left);
    const place = state.layer * heads + state.head;
    const span = high[place] - low[place];
    const y = (sample) => middle - 6 - (span > 0 ? phi2[place * samples + sample] / 255 : 0.5) * (middle - top - 12);
    const at = (value) => Math.round((value / 2) * (samples - 1));
    const chart = svg("svg", {
      viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${data.eigenvalues.length} frequencies between 0 and 2, and φ₂ of layer ${state.layer}, head ${state.head}`,
    });
    svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }, chart);
    for (const tick of [0, 0.5, 1, 1.5, 2])
      svg("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle" }, chart).textContent = tick;
    svg("text", { x: left - 6, y: bottom, "text-anchor": "end" }, chart).textContent = "λ";
    const short = (v) => v.toPrecision(2).replace("-", "−");
    svg("text", { x: left - 6, y: top + 4, "text-anchor": "end" }, chart).textContent = short(high[place]);
    svg("text", { x: left - 6, y: middle, "text-anchor": "end" }, chart).textContent = short(low[place]);
    svg("text", { x: left - 6, y: (top + middle) / 2 + 4, "text-anchor": "end" }, chart).textContent = "φ₂(λ)";
    let d = "";
    for (let s = 0; s < samples; s++) d += `${s ? "L" : "M"}${x((2 * s) / (samples - 1)).toFixed(1)} ${y(s).toFixed(1)}`;
    svg("path", { class: "curve", d }, chart);
    // A frequency that repeats is a stack of sticks.
    const first = data.eigenvalues.map((value) => data.eigenvalues.indexOf(value));
    const stack = Math.min(10, 34 / Math.max(...first.map((f, k) => k - f + 1)));
    data.eigenvalues.forEach((value, k) => {
      const chosen = k === state.wave ? " chosen" : "", foot = bottom - (k - first[k]) * stack;
      svg("line", { class: "stick" + chosen, x1: x(value), x2: x(value), y1: foot - stack + 1.2, y2: foot }, chart);
      svg("circle", { class: "dot" + chosen, cx: x(value), cy: y(at(value)), r: chosen ? 5 : 3 }, chart);
    });
    chart.addEventListener("click", (event) => {
      const where = (2 * (event.clientX - chart.getBoundingClientRect().left - left)) / (right - left);
      let best = 0;
      data.eigenvalues.forEach((v, k) => {
        if (Math.abs(v - where) < Math.abs(data.eigenvalues[best] - where)) best = k;
      });
      // Again on the same frequency: the next of its eigenvectors.
      const again = state.wave !== null && first[state.wave] === best && first[state.wave + 1] === best;
      choose({ wave: again ? state.wave + 1 : best });
    });
    box.replaceChildren(chart);
    const slider = byId("frequency");
    if (state.wave !== null) slider.value = state.wave;
    byId("wave").textContent = state.wave === null ? ""
      : `λ = ${data.eigenvalues[state.wave]}, number ${state.wave + 1} of ${data.eigenvalues.length}`;
  };

  const choose = (change) => {
    const before = state.node;
    Object.assign(state, change);
    if (before !== state.node) paintHeads();
    markHead();
    paintPicture();
    paintSpectrum();
  };
  const paintAll = () => {
    readColours();
    paintHeads();
    choose({});
  };

  const focusAtom = (node) => {
    atoms.forEach((atom, i) => atom.setAttribute("tabindex", i === node ? 0 : -1));
    atoms[node].focus();
  };
  const steer = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  atoms.forEach((atom, node) => {
    const title = svg("title", {}, atom);
    title.textContent = names[node];
    const toggle = () =>
      choose({ node: state.node === node && state.wave === null ? null : node, wave: null });
    atom.addEventListener("click", toggle);
    atom.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle();
      } else if (event.key in steer) {
        event.preventDefault();
        const [down, right] = steer[event.key], next = (node + down + right + nodes) % nodes;
        choose({ node: next, wave: null });
        focusAtom(next);
      }
    });
  });
  grid.addEventListener("keydown", (event) => {
    if (!(event.key in steer)) return;
    event.preventDefault();
    const [down, right] = steer[event.key];
    const layer = (state.layer + down + layers) % layers, head = (state.head + right + heads) % heads;
    choose({ layer, head, wave: null });
    buttons[layer * heads + head].focus();
  });
  byId("frequency").addEventListener("input", (event) => choose({ wave: Number(event.target.value) }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") choose({ node: null, wave: null });
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
  new ResizeObserver(() => {
    paintHeads();
    paintSpectrum();
  }).observe(grid);
  paintAll();
})();
