"use strict";
// ASCII only: other characters would be escaped in the page, which would change the script that the policy allows by hash.
// Text from logs is set through textContent only; attributes are numbers and texts of this file.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const [FROM, TO, ACTION, OBSERVATION, THOUGHT, REASON, REWARD, CREDIT, SCENE, BEFORE, AFTER, FRAMES, WHY, DIFFERS] = [...Array(14).keys()];
  const view = { group: 0, count: 1, rollout: 0, turn: 0 };
  const text = (number) => data.texts[number];

  const make = (tag, content, className) => {
    const element = document.createElement(tag);
    if (content !== undefined) element.textContent = content;
    if (className) element.className = className;
    return element;
  };
  const draw = (tag, attributes) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const signed = (x) => {
    const digits = Math.abs(x).toFixed(2);
    return x !== 0 && digits === "0.00" ? "~0" : (x > 0 ? "+" : x < 0 ? "\u2212" : "") + digits;
  };

  const explain = (word, about) => {
    $("word").textContent = word;
    $("about").textContent = about;
    $("explained").showPopover();
  };

  // Hops to success on the transitions of the first `count` rollouts; Infinity without an observed path.
  const distances = (group, count) => {
    const before = group.nodes.map(() => []);
    for (const rollout of group.rollouts.slice(0, count))
      for (const turn of rollout.turns) before[turn[TO]].push(turn[FROM]);
    const hops = group.nodes.map(() => Infinity);
    const seen = new Set();
    for (const rollout of group.rollouts.slice(0, count))
      for (const turn of rollout.turns) { seen.add(turn[FROM]); seen.add(turn[TO]); }
    const queue = [];
    group.nodes.forEach((node, i) => { if (node[1] === "goal" && seen.has(i)) { hops[i] = 0; queue.push(i); } });
    for (let head = 0; head < queue.length; head++)
      for (const from of before[queue[head]])
        if (hops[from] === Infinity) { hops[from] = hops[queue[head]] + 1; queue.push(from); }
    return { hops, seen };
  };

  const shade = (hops, far) => {
    if (hops === Infinity) return "var(--paper)";
    const near = far > 0 ? 1 - hops / (far + 1) : 1;
    const mix = (a, b) => Math.round(a + (b - a) * near);
    return `rgb(${mix(220, 29)},${mix(234, 78)},${mix(251, 216)})`;
  };

  const drawGraph = () => {
    const group = data.groups[view.group], svg = $("graph");
    const width = Math.max(svg.clientWidth, 300), height = Math.max(svg.clientHeight, 240), pad = 26;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const at = (i) => [pad + group.nodes[i][2] * (width - 2 * pad), pad + group.nodes[i][3] * (height - 2 * pad)];
    const { hops, seen } = distances(group, view.count);
    const far = Math.max(0, ...hops.filter((h) => h !== Infinity));
    const radius = Math.max(3, Math.min(9, 160 / Math.sqrt(group.nodes.length + 1)));
    const edges = new Map();
    for (const rollout of group.rollouts.slice(0, view.count))
      for (const turn of rollout.turns) {
        const key = turn[FROM] + ">" + turn[TO];
        const edge = edges.get(key) || { from: turn[FROM], to: turn[TO], seen: 0, actions: new Set() };
        edge.seen++; edge.actions.add(text(turn[ACTION])); edges.set(key, edge);
      }
    const path = (a, b) => {
      const [x1, y1] = at(a), [x2, y2] = at(b);
      if (a === b) return `M${x1} ${y1 - radius} c -14 -18, 14 -18, 0 0`;
      const bend = 0.12, mx = (x1 + x2) / 2 - (y2 - y1) * bend, my = (y1 + y2) / 2 + (x2 - x1) * bend;
      return `M${x1} ${y1} Q${mx} ${my} ${x2} ${y2}`;
    };
    const chosen = group.rollouts[view.rollout];
    for (const turn of chosen.turns)
      svg.append(draw("path", { d: path(turn[FROM], turn[TO]), fill: "none", stroke: "var(--pick)", "stroke-width": 7, "stroke-opacity": 0.22, "stroke-linecap": "round" }));
    for (const edge of edges.values()) {
      const a = hops[edge.from], b = hops[edge.to];
      const change = a === b ? 0 : b < a ? 1 : -1;
      const line = draw("path", {
        d: path(edge.from, edge.to), fill: "none", "stroke-width": 1 + Math.min(3, Math.log2(edge.seen)),
        stroke: change > 0 ? "var(--gain)" : change < 0 ? "var(--loss)" : "var(--same)", "stroke-opacity": change ? 0.75 : 0.5,
      });
      const tip = draw("title", {});
      tip.textContent = `${[...edge.actions].slice(0, 4).join(", ")} \u00b7 ${edge.seen} turn${edge.seen === 1 ? "" : "s"}`;
      line.append(tip);
      svg.append(line);
    }
    group.nodes.forEach((node, i) => {
      if (!seen.has(i)) return;
      const [x, y] = at(i), [key, kind] = node;
      const mark = kind === "goal" ? "\u2605" : kind === "failed" ? "\u2715" : "";
      const dot = draw("g", { "data-node": i });
      dot.addEventListener("click", () => {
        // of the selected rollout, if it was here; else of the first that was
        const shown = group.rollouts.slice(0, view.count), here = (rollout) => rollout.turns.findIndex((turn) => turn[FROM] === i);
        const found = here(chosen) >= 0 ? view.rollout : shown.findIndex((rollout) => here(rollout) >= 0);
        if (found >= 0) { Object.assign(view, { rollout: found, turn: here(shown[found]) }); refresh(); }
      });
      dot.append(draw("circle", { cx: x, cy: y, r: mark ? radius + 2 : radius, fill: mark ? "var(--paper)" : shade(hops[i], far), stroke: "var(--ring)", "stroke-width": 1 }));
      if (mark) {
        const symbol = draw("text", { x, y: y + radius * 0.7, "text-anchor": "middle", "font-size": radius * 2, fill: kind === "goal" ? "var(--star)" : "var(--loss)" });
        symbol.textContent = mark;
        dot.append(symbol);
      }
      const tip = draw("title", {});
      tip.textContent = `${key}\n${hops[i] === Infinity ? "no observed path to success" : `${hops[i]} turn${hops[i] === 1 ? "" : "s"} to success`}`;
      dot.append(tip);
      svg.append(dot);
    });
    const begin = chosen.turns[0], turn = chosen.turns[view.turn];
    if (begin) {
      const [x, y] = at(begin[FROM]);
      const label = draw("text", { x, y: y - radius - 8, "text-anchor": x < 40 ? "start" : "middle", "font-size": 12, fill: "var(--soft)" });
      label.textContent = "start";
      svg.append(label);
    }
    if (turn) {
      const [x, y] = at(turn[FROM]);
      svg.append(draw("circle", { cx: x, cy: y, r: radius + 5, fill: "none", stroke: "var(--pick)", "stroke-width": 3 }));
      svg.append(draw("path", { d: path(turn[FROM], turn[TO]), fill: "none", stroke: "var(--pick)", "stroke-width": 3 }));
    }
  };

  const tiles = new Image();
  const drawBoard = (number, caption) => {
    const rows = data.boards[number].split("/"), size = data.tile;
    const canvas = make("canvas");
    canvas.width = rows[0].length * size;
    canvas.height = rows.length * size;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${caption}: ${data.boards[number]}`);
    const pen = canvas.getContext("2d");
    if (tiles.complete && tiles.naturalWidth)
      rows.forEach((row, y) => [...row].forEach((code, x) => pen.drawImage(tiles, code * size, 0, size, size, x * size, y * size, size, size)));
    return canvas;
  };
  const figure = (content, caption) => {
    const box = make("figure");
    box.append(content, make("figcaption", caption));
    return box;
  };
  const drawDetail = (turn) => {
    const pictures = [];
    for (const number of turn ? turn[FRAMES] : []) {
      const image = make("img");
      image.src = data.frames[number];
      image.alt = "picture shown to the agent";
      pictures.push(figure(image, "shown to the agent"));
    }
    if (turn && turn[BEFORE] >= 0) pictures.push(figure(drawBoard(turn[BEFORE], "before"), "before"));
    if (turn && turn[AFTER] >= 0) pictures.push(figure(drawBoard(turn[AFTER], "after"), `after ${text(turn[ACTION]).slice(0, 60)}`));
    $("pictures").replaceChildren(...pictures);
    const scene = turn && turn[SCENE] >= 0 ? data.scenes[turn[SCENE]] : [];
    $("scene").replaceChildren(...scene.map(([kind, spans]) => {
      const line = make("p", "", `line-${data.kinds[kind]}`);
      line.append(...spans.map(([mark, content]) => {
        if (!mark) return content;
        const name = data.marks[mark], span = make("span", content, `mark mark-${name}`);
        const tip = { picked: "named by the action", answer: "golden answer", query: "query of this turn" }[name];
        if (tip) span.title = tip;
        return span;
      }));
      return line;
    }));
    $("observation").textContent = turn ? text(turn[OBSERVATION]) : "";
    const structured = pictures.length > 0 || scene.length > 0;
    if (structured !== view.structured) { view.structured = structured; $("raw").open = !structured; }
    $("raw").hidden = !$("observation").textContent;
    $("thought").textContent = turn ? [text(turn[THOUGHT]), text(turn[REASON]) && "invalid action: " + text(turn[REASON])].filter(Boolean).join("\n") : "";
  };

  const drawSide = () => {
    const group = data.groups[view.group];
    $("rollouts").replaceChildren(...group.rollouts.map((rollout, i) => {
      const turns = `${rollout.turns.length} turn${rollout.turns.length === 1 ? "" : "s"}`;
      const button = make("button", `${i + 1} ${rollout.stop === "success" ? "\u2713" : "\u2717"} ${turns}`, rollout.stop === "success" ? "won" : "lost");
      button.type = "button";
      button.title = `${rollout.id}: ${rollout.stop}, score ${rollout.score}, ${turns}`;
      button.disabled = i >= view.count;
      button.setAttribute("role", "option");
      button.setAttribute("aria-selected", String(i === view.rollout));
      button.addEventListener("click", () => { view.rollout = i; view.turn = 0; refresh(); });
      return button;
    }));
    const head = make("tr");
    head.append(...["turn", "action", "reward", ...data.schemes].map((name) => {
      const cell = make("th"), about = data.about[name];
      cell.scope = "col";
      if (!about) { cell.textContent = name; return cell; }
      const button = make("button", name, "term");
      button.type = "button";
      button.title = about;
      button.addEventListener("click", () => {
        explain(name, about);
      });
      cell.append(button);
      return cell;
    }));
    $("head").replaceChildren(head);
    $("turns").replaceChildren(...group.rollouts[view.rollout].turns.map((turn, t) => {
      const row = make("tr");
      row.setAttribute("aria-selected", String(t === view.turn));
      if (turn[DIFFERS]) { row.className = "differs"; row.title = "the schemes disagree about this turn"; }
      const action = make("td", text(turn[ACTION]), turn[REASON] ? "invalid" : "");
      if (turn[REASON]) action.title = text(turn[REASON]);
      row.append(make("td", String(t + 1)), action, make("td", turn[REWARD] ? signed(turn[REWARD]) : "\u00b7", turn[REWARD] > 0 ? "up" : turn[REWARD] < 0 ? "down" : "zero"));
      turn[CREDIT].forEach((value, i) => {
        const cell = make("td", undefined, value > 0 ? "up" : value < 0 ? "down" : "zero"), button = make("button", signed(value), "why");
        button.type = "button";
        button.title = "why this number";
        button.addEventListener("click", () => {
          const rollout = group.rollouts[view.rollout].id;
          explain(`${data.schemes[i]}, turn ${t + 1}`, text(turn[WHY][i]) || `creditflow credit LOG --scheme ${data.schemes[i]} --why ${group.id}/${rollout}:${t}`);
        });
        // shaded in units of the scheme's root mean square in the group, so that columns can be compared
        const strength = Math.min(1, Math.abs(value) / (2 * group.scales[i]));
        if (value) cell.style.backgroundColor = `color-mix(in srgb, var(${value > 0 ? "--gain" : "--loss"}) ${Math.round(45 * strength)}%, transparent)`;
        cell.append(button);
        row.append(cell);
      });
      row.addEventListener("click", () => { view.turn = t; refresh(); });
      return row;
    }));
    drawDetail(group.rollouts[view.rollout].turns[view.turn]);
  };

  const refresh = () => {
    const group = data.groups[view.group];
    const won = group.rollouts.filter((r) => r.stop === "success").length;
    $("count").max = group.rollouts.length;
    $("count").value = view.count;
    $("shown").textContent = ` ${view.count} of ${group.rollouts.length}`;
    $("facts").textContent = `${won} of ${group.rollouts.length} rollouts succeeded \u00b7 ${group.nodes.length} states \u00b7 the slider hides rollouts, credit always uses all of them \u00b7 keys: \u2191 \u2193 turn, \u2190 \u2192 rollout${data.frames_left_out ? ` \u00b7 ${data.frames_left_out} stored pictures are not in this page (too many, missing or damaged)` : ""}`;
    drawSide();
    drawGraph();
    document.body.dataset.ready = "yes";
  };
  const choose = (group) => {
    Object.assign(view, { group, count: data.groups[group].rollouts.length, rollout: 0, turn: 0 });
    refresh();
  };

  if (data.tiles) {
    tiles.src = data.tiles;
    tiles.decode().then(() => refresh());
  }
  $("title").textContent = data.title;
  $("group").append(...data.groups.map((group, i) => {
    const won = group.rollouts.filter((r) => r.stop === "success").length;
    const option = make("option", `${i + 1}: ${won} of ${group.rollouts.length} succeeded \u00b7 ${group.id}`);
    option.value = i;
    return option;
  }));
  $("group").addEventListener("change", (event) => choose(Number(event.target.value)));
  $("count").addEventListener("input", (event) => {
    view.count = Number(event.target.value);
    view.rollout = Math.min(view.rollout, view.count - 1);
    view.turn = 0;
    refresh();
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT" || event.target.tagName === "INPUT") return;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const turns = data.groups[view.group].rollouts[view.rollout].turns.length;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], side = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (side) Object.assign(view, { rollout: Math.max(0, Math.min(view.count - 1, view.rollout + side)), turn: 0 });
    else if (step && turns) view.turn = Math.max(0, Math.min(turns - 1, view.turn + step));
    else return;
    event.preventDefault();
    refresh();
    document.querySelector("#turns tr[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });
  window.addEventListener("resize", drawGraph);
  // it opens where schemes disagree most; if they agree everywhere, on a group with both outcomes, if there is one
  const mixed = (group) => new Set(group.rollouts.map((r) => r.stop === "success")).size > 1;
  const first = Math.max(0, data.groups.findIndex(mixed));
  // view.html#3.2.5 opens group 3, rollout 2, turn 5
  const [group, rollout, turn] = (/^#\d+\.\d+\.\d+$/.test(location.hash) ? location.hash.slice(1).split(".") : []).map((n) => n - 1);
  const asked = data.groups[group]?.rollouts[rollout]?.turns[turn];
  $("group").value = asked ? group : first;
  choose(asked ? group : first);
  if (asked) { Object.assign(view, { rollout, turn }); refresh(); }
  else if (data.opens) {
    $("group").value = data.opens[0];
    choose(data.opens[0]);
    Object.assign(view, { rollout: data.opens[1], turn: data.opens[2] });
    refresh();
  }
})();
