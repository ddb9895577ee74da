"use strict";
// ASCII only: other characters would be escaped in the page, which would change the script that the policy allows by hash.
// Text from logs is set through textContent and text nodes only; attributes are numbers and texts of this file.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const [FROM, TO, ACTION, OBSERVATION, SAID, REASON, REWARD, BEFORE, AFTER, FRAMES] = [...Array(10).keys()];
  const LONG = 1500, SHOWN = 700;  // characters: longer messages are cut to SHOWN until a click
  const view = { scheme: 0, group: 0, rollout: 0, turn: 0, query: "", graph: false };
  const text = (number) => data.texts[number];
  const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

  const make = (tag, content, className) => {
    const element = document.createElement(tag);
    if (content !== undefined) element.textContent = content;
    if (className) element.className = className;
    return element;
  };
  const draw = (tag, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const button = (className, onClick, ...children) => {
    const element = make("button", undefined, className);
    element.type = "button";
    element.addEventListener("click", onClick);
    element.append(...children);
    return element;
  };
  const signed = (x) => {
    const digits = Math.abs(x).toFixed(2);
    return x !== 0 && digits === "0.00" ? "~0" : (x > 0 ? "+" : x < 0 ? "\u2212" : "") + digits;
  };
  const plain = (x) => String(Number(x.toPrecision(3))).replace("-", "\u2212");
  const side = (x) => (x > 0 ? "good" : x < 0 ? "bad" : "");

  // ---- rollouts: all of the log in one list; `first` is the number of the first turn in its group
  const all = data.groups.flatMap((group, g) => {
    let first = 0;
    return group.rollouts.map((rollout, r) => {
      const { turns, score, stop, id } = rollout, rewards = turns.reduce((sum, turn) => sum + turn[REWARD], 0);
      first += turns.length;
      // a log without rewards has scores alone
      return { g, r, id, stop, turns, score, won: stop === "success", value: rewards || score, first: first - turns.length };
    });
  });
  const firstOf = data.groups.map((_, g) => all.findIndex((rollout) => rollout.g === g));
  const here = () => all[firstOf[view.group] + view.rollout];
  const advantages = (rollout, scheme = view.scheme) =>
    data.groups[rollout.g].credit[scheme]?.advantages.slice(rollout.first, rollout.first + rollout.turns.length) ?? [];
  const largest = (g, scheme) => data.groups[g].credit[scheme]?.advantages.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1;
  const spread = (rollout) => {
    const values = advantages(rollout);
    return values.length ? values.reduce((a, b) => Math.max(a, b)) - values.reduce((a, b) => Math.min(a, b)) : 0;
  };

  // one column a turn, above the middle for good and below for bad; two paths, however long the rollout is
  const strip = (values, most) => {
    const paths = { good: "", bad: "" };
    values.forEach((x, t) => { if (x) paths[side(x)] += `M${t} 10h.8v${-10 * x / most}h-.8z`; });
    return draw("svg", { class: "strip", viewBox: `0 0 ${Math.max(values.length, 8)} 20`, preserveAspectRatio: "none", "aria-hidden": "true" },
      draw("path", { class: "good", d: paths.good }), draw("path", { class: "bad", d: paths.bad }));
  };
  const bar = (x, most) => draw("svg", { class: "bar", viewBox: "-100 0 200 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: side(x), x: Math.min(0, 100 * x / most), width: Math.abs(100 * x / most), height: 12 }),
    draw("path", { class: "zero", d: "M0 0V12", "vector-effect": "non-scaling-stroke" }));

  const matches = (query) => {
    const found = data.texts.map((content) => content.toLowerCase().includes(query));
    return (rollout) => rollout.id.toLowerCase().includes(query)
      || rollout.turns.some((turn) => found[turn[ACTION]] || found[turn[OBSERVATION]] || found[turn[SAID]]);
  };
  let listed = all, buttons = new Map();
  const drawList = () => {
    const outcome = $("outcome").value, group = $("group").value, wanted = view.query ? matches(view.query) : () => true;
    listed = all.filter((one) => (!outcome || one.won === (outcome === "won")) && (!group || one.g === Number(group)) && wanted(one));
    const order = { return: (one) => one.value, length: (one) => -one.turns.length, spread: (one) => -spread(one) }[$("sort").value];
    if (order) {
      const keys = new Map(listed.map((one) => [one, order(one)]));
      listed.sort((a, b) => keys.get(a) - keys.get(b));
    }
    const most = data.groups.map((_, g) => largest(g, view.scheme));
    buttons = new Map(listed.map((one) => {
      const element = button("", () => go(one, 0), make("span", one.won ? "\u2713" : "\u2717", one.won ? "good" : "bad"),
        make("span", `${one.g + 1}.${one.r + 1}`), make("small", plain(one.value)), strip(advantages(one), most[one.g]));
      element.setAttribute("role", "option");
      element.title = `${one.id}: ${one.stop}, return ${plain(one.value)}, ${count(one.turns.length, "turn")}`;
      element.setAttribute("aria-label", element.title);
      return [one, element];
    }));
    $("rollouts").replaceChildren(...buttons.values());
    $("found").textContent = `${listed.length} of ${all.length}`;
    markList();
  };
  const markList = () => {
    $("rollouts").querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    const element = buttons.get(here());
    element?.setAttribute("aria-selected", "true");
    element?.scrollIntoView({ block: "nearest" });
  };

  // ---- messages
  // a text with what is searched for marked
  const marked = (content) => {
    if (!view.query) return [content];
    const low = content.toLowerCase(), parts = [];
    let at = 0;
    for (let next = low.indexOf(view.query); next >= 0 && parts.length < 2000; next = low.indexOf(view.query, at)) {
      parts.push(content.slice(at, next), make("mark", content.slice(next, next + view.query.length)));
      at = next + view.query.length;
    }
    return [...parts, content.slice(at)];
  };
  const paragraph = (content, className) => {
    const element = make("p", undefined, className);
    const cut = content.length > LONG && !(view.query && content.toLowerCase().includes(view.query));
    element.append(...marked(cut ? content.slice(0, SHOWN) + "\u2026" : content));
    if (!cut) return [element];
    const more = button("more", (event) => { event.stopPropagation(); more.remove(); element.replaceChildren(content); },
      `show all ${content.length.toLocaleString("en")} characters`);
    return [element, more];
  };
  // name and arguments of a call: {"name", "arguments"}, name({...}) or name[argument]; null for other texts
  const call = (content) => {
    let value = null;
    const written = /^([\w.-]+)\((\{[\s\S]*\})\)$/.exec(content), bracket = /^([a-z]\w*)\[([\s\S]*)\]$/i.exec(content);
    try { value = JSON.parse(written ? written[2] : content); } catch { /* no JSON */ }
    if (written && value) return [written[1], value];
    if (bracket) return [bracket[1], { "": bracket[2] }];
    const inner = value?.function ?? value;
    if (typeof inner?.name !== "string") return null;
    let args = inner.arguments ?? inner.args ?? {};
    try { if (typeof args === "string") args = JSON.parse(args); } catch { /* shown as it is */ }
    return [inner.name, typeof args === "object" && args ? args : { "": String(args) }];
  };
  const drawCall = (content) => {
    const found = call(content.trim());
    if (!found) return paragraph(content, "plain");
    const box = make("div", undefined, "call"), [name, args] = found, keys = Object.keys(args);
    const head = make("b");
    head.append(...marked(keys.length === 1 && !keys[0] ? `${name}: ${args[""]}` : name));
    box.append(head);
    for (const key of keys.filter(Boolean)) {
      const value = make("code");
      value.append(...marked(typeof args[key] === "string" ? args[key] : JSON.stringify(args[key])));
      box.append(make("span", key), value);
    }
    return [box];
  };
  const TAGS = /<(think|tool_call|tool_response|action|search|answer|information|result)>([\s\S]*?)<\/\1>|^[\w.-]+\(\{.*\}\)$/gm;
  const drawSaid = (content) => {
    const parts = [];
    let end = 0, acted = false;
    for (const match of content.matchAll(TAGS)) {
      if (content.slice(end, match.index).trim()) parts.push(...paragraph(content.slice(end, match.index).trim()));
      end = match.index + match[0].length;
      const [whole, tag, inner] = match;
      acted ||= tag !== "think";
      if (tag === "think") parts.push(...paragraph(inner.trim(), "thought"));
      else if (!tag || tag === "tool_call" || tag === "action") parts.push(...drawCall(inner ?? whole));
      else parts.push(make("small", tag), ...paragraph(inner.trim(), "plain"));
    }
    if (content.slice(end).trim()) parts.push(...paragraph(content.slice(end).trim()));
    return [parts, acted];
  };
  const drawSeen = (content, action) => {
    const pieces = content.split(" [SEP] ");
    // lines without small letters are drawn in characters, such as a board or a map
    try {
      const value = JSON.parse(content);
      if (typeof value === "object") return paragraph(JSON.stringify(value, null, 2), "plain");
    } catch { /* no JSON */ }
    if (pieces.length < 3) return /^(?=.{5})[^a-z]+$/m.test(content) ? paragraph(content, "plain") : drawSaid(content)[0];
    const named = call(action)?.[1][""]?.toLowerCase(), box = make("div", undefined, "chips");
    box.append(...pieces.map((piece) => {
      const chip = make("span", undefined, piece.toLowerCase() === named ? "named" : piece.length > 60 ? "long" : "");
      chip.append(...marked(piece));
      return chip;
    }));
    return [box];
  };

  const tiles = new Image();
  const board = (number, caption) => {
    const rows = data.boards[number].split("/"), size = data.tile, canvas = make("canvas");
    canvas.width = rows[0].length * size;
    canvas.height = rows.length * size;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${caption}: ${data.boards[number]}`);
    const pen = canvas.getContext("2d");
    rows.forEach((row, y) => [...row].forEach((code, x) => pen.drawImage(tiles, code * size, 0, size, size, x * size, y * size, size, size)));
    return figure(canvas, caption);
  };
  const figure = (content, caption) => {
    const box = make("figure");
    box.append(content, make("figcaption", caption));
    return box;
  };
  const message = (who, ...content) => {
    const box = make("div", undefined, `message ${who}`);
    box.append(make("small", who), ...content);
    return box;
  };
  const drawTurn = (turn, t, x, most) => {
    const box = make("article", undefined, "turn"), head = make("header"), pictures = make("div", undefined, "pictures");
    head.append(make("span", `turn ${t + 1}${turn[REWARD] ? `, reward ${plain(turn[REWARD])}` : ""}`), bar(x, most), make("b", signed(x), side(x)));
    for (const number of turn[FRAMES]) {
      const image = make("img");
      image.src = data.frames[number];
      image.alt = "picture shown to the agent";
      pictures.append(figure(image, "shown to the agent"));
    }
    if (turn[BEFORE] >= 0) pictures.append(board(turn[BEFORE], "before"));
    if (turn[AFTER] >= 0) pictures.append(board(turn[AFTER], "after"));
    const action = text(turn[ACTION]), [said, acted] = drawSaid(text(turn[SAID]));
    if (!acted && text(turn[SAID]).trim() !== action.trim()) said.push(...drawCall(action));
    else if (!acted) said.splice(0, said.length, ...drawCall(action));
    if (turn[REASON]) said.push(make("p", `invalid action: ${text(turn[REASON])}`, "bad"));
    let seen = turn[OBSERVATION] ? drawSeen(text(turn[OBSERVATION]), action) : [];
    if (seen.length && pictures.children.length) {
      const folded = make("details");
      folded.append(make("summary", "text"), ...seen);
      seen = [folded];
    }
    if (seen.length || pictures.children.length) box.append(head, message("environment", pictures, ...seen), message("agent", ...said));
    else box.append(head, message("agent", ...said));
    box.addEventListener("click", () => { if (!getSelection().toString()) select(t); });
    return box;
  };
  const drawTalk = () => {
    const rollout = here(), values = advantages(rollout), most = largest(view.group, view.scheme);
    $("where").textContent = `group ${view.group + 1}, rollout ${view.rollout + 1} of ${data.groups[view.group].rollouts.length}: ${rollout.stop}, score ${plain(rollout.score)}, ${count(rollout.turns.length, "turn")}`;
    $("where").title = `${rollout.id}, task ${data.groups[view.group].task}`;
    $("talk").replaceChildren(...rollout.turns.map((turn, t) => drawTurn(turn, t, values[t] ?? 0, most)));
  };

  // ---- credit: two sentences from the stored terms and comparisons
  const why = (rollout, t, scheme) => {
    const credit = data.groups[rollout.g].credit[scheme], row = rollout.first + t, outcome = credit.outcome[rollout.r];
    const terms = [...(outcome ? [["the outcome of the rollout", outcome]] : []), ...credit.terms.map(([name, values]) => [name, values[row]])];
    const parts = terms.filter(([, x]) => x).map(([name, x]) => `${signed(x)} from ${name}`);
    const sum = parts.length > 1 ? `The credit is the sum of ${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}.`
      : parts.length ? `All of the credit is ${parts[0]}.` : "The credit is 0: no term of the scheme says anything about this turn.";
    // rather the last with other turns than one with other rollouts: the step's comparison follows the outcome's
    const compared = credit.compared.flatMap((one) => {
      const entry = Math.max(one.rows.indexOf(row), one.rows.indexOf(-1 - rollout.r));
      return entry < 0 ? [] : [{ one, entry }];
    });
    const found = compared.findLast(({ one }) => one.unit === "turn") ?? compared[0];
    if (found) {
      const { one, entry } = found, value = one.values[entry], label = one.samples[entry], mean = one.means[label], size = one.sizes[label];
      if (size < 2) return `${sum} Its ${one.quantity}, ${plain(value)}, is the only one, so nothing can be compared.`;
      return `${sum} Its ${one.quantity}, ${plain(value)}, is ${value > mean ? "above" : value < mean ? "below" : "equal to"} ${plain(mean)}, the mean of ${size} ${one.unit}s.`;
    }
    const { rollouts } = data.groups[rollout.g], from = rollout.turns[t][FROM], other = [], action = rollout.turns[t][ACTION];
    let at = 0;
    for (const one of rollouts) for (const turn of one.turns) {
      if (turn[FROM] === from && turn[ACTION] !== action) other.push(credit.advantages[at]);
      at++;
    }
    if (!other.length) return `${sum} No other action was tried in this state.`;
    const mean = other.reduce((a, b) => a + b) / other.length;
    return `${sum} Other actions in this state, ${count(other.length, "turn")} of the group, have ${signed(mean)} on average.`;
  };
  const drawCredit = () => {
    const rollout = here(), t = view.turn, x = advantages(rollout)[t];
    const known = x !== undefined;
    $("number").textContent = known ? `Turn ${t + 1}: ${signed(x)}` : "No turn";
    $("number").className = side(x ?? 0);
    $("why").textContent = known ? why(rollout, t, view.scheme) : "";
    $("about").textContent = data.about[view.scheme] ?? "";
    $("compare").replaceChildren(...data.schemes.map((name, scheme) => {
      const value = advantages(rollout, scheme)[t] ?? 0, item = make("li");
      const element = button("", () => { $("scheme").value = scheme; choose(scheme); }, make("span", name), bar(value, largest(rollout.g, scheme)), make("b", signed(value), side(value)));
      element.setAttribute("aria-pressed", String(scheme === view.scheme));
      item.append(element);
      return item;
    }));
  };

  // ---- state graph, drawn in pixels at its own size; zooming changes the view box
  let box = { x: 0, y: 0, w: 1, h: 1 }, whole = box;
  const setBox = (next) => {
    box = next;
    const svg = $("graph"), unit = Math.max(box.w / svg.clientWidth, box.h / svg.clientHeight);  // of the drawing, per pixel
    svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`);
    svg.style.setProperty("--unit", Math.max(1, unit));
    svg.classList.toggle("far", unit > 1.6);
  };
  // Turns to a success over the observed transitions; Infinity without a path.
  const distances = (group) => {
    const before = group.nodes.map(() => []), hops = group.nodes.map(([kind]) => (kind === "goal" ? 0 : Infinity));
    for (const rollout of group.rollouts) for (const turn of rollout.turns) before[turn[TO]].push(turn[FROM]);
    const queue = [...hops.keys()].filter((i) => hops[i] === 0);
    for (const to of queue) for (const from of before[to]) if (hops[from] === Infinity) { hops[from] = hops[to] + 1; queue.push(from); }
    return hops;
  };
  const drawGraph = (fit) => {
    const group = data.groups[view.group], rollout = here(), hops = distances(group), svg = $("graph");
    const columns = new Map();
    for (const [, x] of group.nodes) columns.set(x, (columns.get(x) ?? 0) + 1);
    const width = 130 * Math.max(columns.size - 1, 1), height = 60 * Math.max(...columns.values(), 4);
    const at = (i) => [group.nodes[i][1] * width, group.nodes[i][2] * height];
    if (fit) { whole = { x: -50, y: -30, w: width + 100, h: height + 60 }; setBox(whole); }
    const edges = new Map();
    const own = new Map(rollout.turns.map((turn, t) => [`${turn[FROM]}>${turn[TO]}`, t]));
    for (const one of group.rollouts) for (const turn of one.turns) {
      const key = `${turn[FROM]}>${turn[TO]}`, edge = edges.get(key) ?? { from: turn[FROM], to: turn[TO], turns: 0, actions: new Set() };
      edge.turns++;
      edge.actions.add(text(turn[ACTION]));
      edges.set(key, edge);
    }
    const now = rollout.turns[view.turn], lines = [], labels = [];
    for (const [key, edge] of edges) {
      const [x1, y1] = at(edge.from), [x2, y2] = at(edge.to), loop = edge.from === edge.to;
      const mx = (x1 + x2) / 2 - (y2 - y1) * 0.12, my = (y1 + y2) / 2 + (x2 - x1) * 0.12;
      const change = loop || hops[edge.to] === hops[edge.from] ? "" : hops[edge.to] < hops[edge.from] ? "closer" : "farther";
      const selected = now && key === `${now[FROM]}>${now[TO]}` ? "now" : own.has(key) ? "mine" : "";
      const tip = draw("title", {}, `${[...edge.actions].slice(0, 4).join(", ")} \u00b7 ${count(edge.turns, "turn")}`);
      lines.push([selected, draw("path", { class: `${change} ${selected}`, d: loop ? `M${x1} ${y1 - 12}c-24-30 24-30 0 0` : `M${x1} ${y1}Q${mx} ${my} ${x2} ${y2}` }, tip)]);
      if (selected) {
        const action = text(rollout.turns[selected === "now" ? view.turn : own.get(key)][ACTION]);
        labels.push(draw("text", { class: `edge ${selected}`, x: loop ? x1 : (x1 + 2 * mx + x2) / 4, y: loop ? y1 - 36 : (y1 + 2 * my + y2) / 4 - 5 }, action.length > 22 ? action.slice(0, 21) + "\u2026" : action));
      }
    }
    const begins = rollout.turns[0]?.[FROM];
    const nodes = group.nodes.map(([kind], i) => {
      const [x, y] = at(i), sign = kind === "goal" ? "\u2605" : kind === "failed" ? "\u2715" : String(i + 1);
      const dot = draw("g", { "data-node": i, class: now && now[FROM] === i ? "now" : "" }, draw("circle", { cx: x, cy: y, r: 12 }),
        draw("text", { x, y: y + 4, class: kind === "goal" ? "good" : kind === "failed" ? "bad" : "" }, sign),
        draw("title", {}, hops[i] === Infinity ? "no observed path to a success" : `${count(hops[i], "turn")} to a success`));
      if (i === begins) dot.append(draw("text", { x, y: y - 18 }, "start"));
      dot.addEventListener("click", () => {
        // of this rollout, if it was here; else of the first that was
        const starts = (one) => one.turns.findIndex((turn) => turn[FROM] === i);
        const one = starts(rollout) >= 0 ? rollout : all.find((candidate) => candidate.g === view.group && starts(candidate) >= 0);
        if (one) go(one, starts(one));
      });
      return dot;
    });
    lines.sort((a, b) => a[0].length - b[0].length);
    svg.replaceChildren(...lines.map(([, line]) => line), ...nodes, ...labels);
  };
  const zoom = (factor, x = 0.5, y = 0.5) => {
    const w = Math.min(whole.w * 2, Math.max(80, box.w * factor)), h = w * box.h / box.w;
    setBox({ x: box.x + (box.w - w) * x, y: box.y + (box.h - h) * y, w, h });
  };
  $("graph").addEventListener("wheel", (event) => {
    event.preventDefault();
    const area = $("graph").getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, (event.clientX - area.left) / area.width, (event.clientY - area.top) / area.height);
  }, { passive: false });
  $("graph").addEventListener("pointermove", (event) => {
    if (!event.buttons) return;
    const area = $("graph").getBoundingClientRect(), scale = Math.max(box.w / area.width, box.h / area.height);
    setBox({ ...box, x: box.x - event.movementX * scale, y: box.y - event.movementY * scale });
  });
  for (const element of $("zoom").children)
    element.addEventListener("click", () => (Number(element.dataset.zoom) ? zoom(Number(element.dataset.zoom)) : setBox(whole)));

  // ---- what is selected
  const select = (t) => {
    view.turn = t;
    const turns = $("talk").children;
    $("talk").querySelector("[aria-current]")?.removeAttribute("aria-current");
    turns[t]?.setAttribute("aria-current", "true");
    if (!view.graph) turns[t]?.scrollIntoView({ block: "nearest" });
    drawCredit();
    if (view.graph) drawGraph(false);
    history.replaceState(null, "", `#${view.group + 1}.${view.rollout + 1}.${t + 1}`);
  };
  const go = (rollout, t) => {
    const moved = rollout.g !== view.group;
    Object.assign(view, { group: rollout.g, rollout: rollout.r, turn: t });
    drawTalk();
    $("talk").scrollTop = 0;
    markList();
    if (view.graph) drawGraph(moved);
    select(t);
  };
  const choose = (scheme) => {
    view.scheme = Number(scheme);
    drawList();
    drawTalk();
    select(view.turn);
  };
  const tab = (graph) => {
    view.graph = graph;
    $("graphbox").hidden = !graph;
    $("talk").hidden = graph;
    $("show-graph").setAttribute("aria-selected", String(graph));
    $("show-talk").setAttribute("aria-selected", String(!graph));
    if (graph) drawGraph(true); else select(view.turn);
  };
  const asked = () => {
    const [g, r, t] = (/^#\d+\.\d+\.\d+$/.test(location.hash) ? location.hash.slice(1).split(".") : []).map((n) => n - 1);
    return data.groups[g]?.rollouts[r]?.turns[t] ? [all[firstOf[g] + r], t] : null;
  };
  // the worst turn of the failed rollout whose credit differs most, in a group with both outcomes if there is one
  const begin = () => {
    const mixed = data.groups.map((group) => new Set(group.rollouts.map((one) => one.stop === "success")).size > 1);
    const lost = all.filter((one) => !one.won && mixed[one.g]), among = lost.length ? lost : all;
    const spreads = among.map(spread), one = among[spreads.indexOf(spreads.reduce((a, b) => Math.max(a, b), 0))] ?? among[0];
    const values = advantages(one);
    return [one, Math.max(0, values.indexOf(values.reduce((a, b) => Math.min(a, b), Infinity)))];
  };

  const start = () => {
    const won = all.filter((one) => one.won).length;
    $("title").textContent = data.title;
    $("facts").textContent = `${count(data.groups.length, "group")}, ${count(all.length, "rollout")}, ${won} succeeded${data.frames_left_out ? `; ${data.frames_left_out} stored pictures are not in this page (too many, missing or damaged)` : ""}`;
    $("group").append(new Option("all groups", ""), ...data.groups.map((group, i) => new Option(`group ${i + 1}: ${group.id}`, i)));
    $("scheme").append(...data.schemes.map((name, i) => new Option(name === data.recommended ? `${name} (recommended)` : name, i)));
    $("drawer").open = innerWidth > 960;
    Object.assign(view, { turn: -1 });
    const [rollout, t] = asked() ?? begin();
    Object.assign(view, { group: rollout.g, rollout: rollout.r });
    drawList();
    tab(false);
    go(rollout, t);
    document.body.dataset.ready = "yes";
  };
  for (const id of ["group", "outcome", "sort"]) $(id).addEventListener("change", drawList);
  $("search").addEventListener("input", () => { view.query = $("search").value.trim().toLowerCase(); drawList(); drawTalk(); select(view.turn); });
  $("scheme").addEventListener("change", () => choose($("scheme").value));
  $("show-talk").addEventListener("click", () => tab(false));
  $("show-graph").addEventListener("click", () => tab(true));
  addEventListener("hashchange", () => { const place = asked(); if (place) go(...place); });
  addEventListener("keydown", (event) => {
    if (/SELECT|INPUT/.test(event.target.tagName)) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key], aside = { ArrowRight: 1, l: 1, ArrowLeft: -1, h: -1 }[event.key];
    if (step && here().turns.length) select(Math.max(0, Math.min(here().turns.length - 1, view.turn + step)));
    else if (aside && listed.length) go(listed[Math.max(0, Math.min(listed.length - 1, listed.indexOf(here()) + aside))], 0);
    else if (event.key === "/") { $("drawer").open = true; $("search").focus(); }
    else if (event.key === "g") tab(!view.graph);
    else return;
    event.preventDefault();
  });
  if (data.tiles) { tiles.src = data.tiles; tiles.decode().then(start); } else start();
})();
