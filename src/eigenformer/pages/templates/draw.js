"use strict";
// A small editor of structures. It writes SMILES; what they mean is for the server to say.
(() => {
  const svg = document.getElementById("canvas");
  if (!svg) return; // the model takes tables only
  const byId = (id) => document.getElementById(id);
  const WIDTH = 320, HEIGHT = 220, LENGTH = 34, NEAR = 12, MOST_ATOMS = 200, MOST_UNDO = 200;
  const KEYS = { c: "C", n: "N", o: "O", s: "S", p: "P", f: "F", l: "Cl", b: "Br", i: "I", "6": "ring", a: "arene" };
  let atoms = [], bonds = [], next = 1; // atoms: id, element, x, y; bonds: a, b, order
  let tool = "C", pressed = null;
  const past = [];

  const atom = (id) => atoms.find((each) => each.id === id);
  const others = (id) => bonds.filter((bond) => bond.a === id || bond.b === id)
    .map((bond) => atom(bond.a === id ? bond.b : bond.a));
  const nearest = (point) => atoms.find((each) => Math.hypot(each.x - point.x, each.y - point.y) < NEAR);
  const isElement = () => !["ring", "arene", "erase"].includes(tool);

  // Every change goes through here, so that it can be undone.
  const change = (edit) => {
    past.push(JSON.stringify([atoms, bonds]));
    if (past.length > MOST_UNDO) past.shift();
    edit();
    const many = atoms.length > MOST_ATOMS;
    if (many) undo();
    show(many ? `At most ${MOST_ATOMS} atoms can be drawn.` : "");
  };
  const undo = () => {
    if (past.length) [atoms, bonds] = JSON.parse(past.pop());
    show("");
  };
  const addAtom = (point, element) => {
    const there = nearest(point);
    if (there) return there.id;
    atoms.push({ id: next, element, x: point.x, y: point.y });
    return next++;
  };
  const connect = (a, b, order = 1) => {
    const there = bonds.find((bond) => (bond.a === a && bond.b === b) || (bond.a === b && bond.b === a));
    if (!there && a !== b) bonds.push({ a, b, order });
  };
  const at = (start, angle) => ({
    x: start.x + LENGTH * Math.cos(angle), y: start.y + LENGTH * Math.sin(angle),
  });
  // The direction of the next bond: in the middle of the widest gap, 120 degrees from a single one.
  const freeAngle = (start) => {
    const angles = others(start.id).map((other) => Math.atan2(other.y - start.y, other.x - start.x)).sort((a, b) => a - b);
    if (!angles.length) return -Math.PI / 6;
    if (angles.length === 1) {
      const room = (angle) => Math.min(...atoms.filter((each) => each !== start)
        .map((each) => Math.hypot(each.x - at(start, angle).x, each.y - at(start, angle).y)));
      const [left, right] = [angles[0] - 2 * Math.PI / 3, angles[0] + 2 * Math.PI / 3];
      const [one, two] = [room(left), room(right)];
      if (Math.abs(one - two) > 1) return one > two ? left : right;
      return Math.abs(Math.sin(left)) < Math.abs(Math.sin(right)) ? left : right;
    }
    const gaps = angles.map((angle, i) => (angles[i + 1] ?? angles[0] + 2 * Math.PI) - angle);
    const widest = gaps.indexOf(Math.max(...gaps));
    return angles[widest] + gaps[widest] / 2;
  };
  // A ring of six around a centre, with one corner in a given direction.
  const addRing = (centre, angle, double) => {
    const ids = [0, 1, 2, 3, 4, 5].map((i) => addAtom(at(centre, angle + i * Math.PI / 3), "C"));
    ids.forEach((id, i) => connect(id, ids[(i + 1) % 6], double && i % 2 ? 2 : 1));
    return ids;
  };
  const erase = (id) => {
    atoms = atoms.filter((each) => each.id !== id);
    bonds = bonds.filter((bond) => bond.a !== id && bond.b !== id);
  };

  const clickAtom = (id) => change(() => {
    const start = atom(id), angle = freeAngle(start);
    if (tool === "erase") erase(id);
    else if (!isElement()) {
      const centre = { x: start.x + 2 * LENGTH * Math.cos(angle), y: start.y + 2 * LENGTH * Math.sin(angle) };
      connect(id, addRing(centre, angle + Math.PI, tool === "arene")[0]);
    } else if (start.element !== tool) start.element = tool;
    else connect(id, addAtom(at(start, angle), tool));
  });
  const clickBond = (bond) => change(() => {
    if (tool === "erase") bonds = bonds.filter((each) => each !== bond);
    else bond.order = bond.order % 3 + 1;
  });
  const clickEmpty = (point) => {
    if (tool === "erase") return;
    change(() => (isElement() ? addAtom(point, tool) : addRing(point, Math.PI / 6, tool === "arene")));
  };
  const drag = (id, point) => change(() => {
    const start = atom(id), there = nearest(point);
    const turn = Math.PI / 6; // directions are multiples of 30 degrees
    const angle = Math.round(Math.atan2(point.y - start.y, point.x - start.x) / turn) * turn;
    connect(id, there ? there.id : addAtom(at(start, angle), isElement() ? tool : "C"));
  });

  // Depth first: bonds to atoms that were visited before become ring closures.
  const smiles = () => {
    const around = new Map(atoms.map((each) => [each.id, []]));
    for (const bond of bonds) {
      around.get(bond.a).push([bond, bond.b]);
      around.get(bond.b).push([bond, bond.a]);
    }
    const seen = new Set(), used = new Set(), children = new Map(), closures = new Map();
    let rings = 0;
    const visit = (id) => {
      seen.add(id);
      children.set(id, []);
      closures.set(id, closures.get(id) ?? []);
      for (const [bond, other] of around.get(id)) {
        if (used.has(bond)) continue;
        used.add(bond);
        if (seen.has(other)) {
          const number = ++rings < 10 ? `${rings}` : `%${rings}`;
          closures.get(id).push(sign(bond) + number);
          closures.get(other).push(number);
        } else {
          children.get(id).push([bond, other]);
          visit(other);
        }
      }
    };
    const sign = (bond) => ["", "", "=", "#"][bond.order];
    const written = (id) => {
      const parts = children.get(id).map(([bond, other]) => sign(bond) + written(other));
      const last = parts.pop() ?? "";
      return atom(id).element + closures.get(id).join("") + parts.map((part) => `(${part})`).join("") + last;
    };
    const pieces = atoms.map(({ id }) => {
      if (seen.has(id)) return "";
      visit(id);
      return written(id);
    });
    if (rings > 99) return null; // SMILES have two digits for a ring
    return pieces.filter(Boolean).join(".");
  };

  const shape = (name, values, className) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    if (className) element.setAttribute("class", className);
    return element;
  };
  const button = (element, label, press) => {
    for (const [key, value] of [["tabindex", 0], ["role", "button"], ["aria-label", label]]) element.setAttribute(key, value);
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    });
    return element;
  };
  const bondShape = (bond) => {
    const [a, b] = [atom(bond.a), atom(bond.b)];
    const line = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
    const group = button(shape("g", { "data-bond": bonds.indexOf(bond) }, "drawn-bond"), `bond of order ${bond.order} between ${a.element} and ${b.element}`, () => clickBond(bond));
    group.append(shape("line", line, "reach"));
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    for (const shift of [[0], [-2.5, 2.5], [-4.5, 0, 4.5]][bond.order - 1]) {
      const [x, y] = [-shift * (b.y - a.y) / length, shift * (b.x - a.x) / length];
      group.append(shape("line", { x1: a.x + x, y1: a.y + y, x2: b.x + x, y2: b.y + y }, "bond"));
    }
    return group;
  };
  const atomShape = (each) => {
    const bare = each.element === "C" && others(each.id).length > 0;
    const group = button(shape("g", { "data-atom": each.id }, "drawn-atom"), `${each.element}, atom ${atoms.indexOf(each) + 1}`, () => clickAtom(each.id));
    group.append(shape("circle", { cx: each.x, cy: each.y, r: NEAR }, bare ? "reach" : "reach label"));
    if (!bare) {
      const text = shape("text", { x: each.x, y: each.y + 5 });
      text.textContent = each.element;
      group.append(text);
    }
    return group;
  };
  const show = (problem) => {
    const focused = document.activeElement?.closest?.("[data-atom]")?.dataset.atom;
    const xs = atoms.map((each) => each.x), ys = atoms.map((each) => each.y), edge = 2 * NEAR;
    const [left, top] = [Math.min(0, ...xs.map((x) => x - edge)), Math.min(0, ...ys.map((y) => y - edge))];
    const [right, bottom] = [Math.max(WIDTH, ...xs.map((x) => x + edge)), Math.max(HEIGHT, ...ys.map((y) => y + edge))];
    svg.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    svg.replaceChildren(...bonds.map(bondShape), ...atoms.map(atomShape));
    if (focused) svg.querySelector(`[data-atom="${Number(focused)}"]`)?.focus();
    const text = smiles();
    byId("drawn").textContent = problem || (text === null ? "There are too many rings." : text || "Click to place an atom.");
    byId("use-drawing").disabled = !text;
    byId("undo").disabled = !past.length;
    byId("clear").disabled = !atoms.length;
  };

  const pointOf = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const choose = (name) => {
    tool = name;
    document.querySelector(`input[name="tool"][value="${name}"]`).checked = true;
  };
  // Not clicks: a finger that moves makes none.
  svg.addEventListener("pointerdown", (event) => {
    pressed = event.button === 0 ? event.target.closest("[data-atom], [data-bond], svg") : null;
  });
  svg.addEventListener("pointerup", (event) => {
    const point = pointOf(event), { atom: id, bond } = pressed?.dataset ?? {};
    if (!pressed) return;
    pressed = null;
    if (bond) clickBond(bonds[Number(bond)]);
    else if (!id) clickEmpty(point);
    else {
      const start = atom(Number(id));
      if (tool !== "erase" && Math.hypot(point.x - start.x, point.y - start.y) > NEAR) drag(start.id, point);
      else clickAtom(start.id);
    }
  });
  svg.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z") undo();
    else if (event.ctrlKey || event.metaKey || event.altKey) return;
    else if (KEYS[event.key]) choose(KEYS[event.key]);
    else if (event.key === "Enter" && event.target === svg) clickEmpty({ x: WIDTH / 2, y: HEIGHT / 2 });
    else if (event.key === "Delete" && event.target.dataset.atom) change(() => erase(Number(event.target.dataset.atom)));
    else return;
    event.preventDefault();
  });
  for (const input of document.querySelectorAll('input[name="tool"]')) input.addEventListener("change", () => choose(input.value));
  byId("undo").addEventListener("click", undo);
  byId("clear").addEventListener("click", () => change(() => { atoms = []; bonds = []; }));
  byId("use-drawing").addEventListener("click", () => {
    const field = byId("smiles"), lines = field.value.split("\n").filter((line) => line.trim());
    field.value = [...lines, smiles()].join("\n");
    byId("predict").click();
  });
  show("");
})();
