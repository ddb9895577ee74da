"use strict";
// The playground: change a recorded group and see the credit of four schemes change. The upper half are the schemes' formulas with their
// default options, as in wrappers/credit; a test compares them with NumPy. A group is {states, actions, rollouts}, a rollout
// {end, score, turns}, and a turn [state, action, next state, reward], with states and actions as numbers.
const TIE = 1e-9, GIGPO = { discount: 0.95 }, GRAPHGPO = { discount: 0.1, reward: 10 };
const GROUPTD = { prior: 3, discount: 0.9, lambda: 0.6, progress: 2, count: 8, test: 4 };
const sum = (xs) => xs.reduce((a, b) => a + b, 0), mean = (xs) => sum(xs) / xs.length;
const groupBy = (items, key) => {
  const groups = new Map();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
};
const backward = (turns, start, step) => {  // y_t = step(turn t, y_(t+1)), from the last turn
  const out = [];
  turns.reduceRight((next, turn) => (out.unshift(step(turn, next)), out[0]), start);
  return out;
};

// (x - mean) / std among the entries of one label; 0 where all are equal, or only one
function normalize(entries) {
  const out = new Map();
  for (const same of groupBy(entries, (entry) => entry.label).values()) {
    const xs = same.map((entry) => entry.x), centre = mean(xs), size = Math.max(...same.map((entry) => entry.size ?? Math.abs(entry.x)));
    const tied = Math.max(...xs) - Math.min(...xs) <= TIE * size;
    const std = Math.sqrt(sum(xs.map((x) => (x - centre) ** 2)) / Math.max(xs.length - 1, 1));
    for (const entry of same) out.set(entry.of, tied ? 0 : (entry.x - centre) / std);
  }
  return out;
}

// fewest edges from every node to the goals
function hops(edges, goals) {
  const before = groupBy(edges, ([, to]) => to), distance = new Map(goals.map((goal) => [goal, 0]));
  for (const node of distance.keys()) // grows while it is read
    for (const [from] of before.get(node) ?? []) if (!distance.has(from)) distance.set(from, distance.get(node) + 1);
  return (node) => distance.get(node) ?? Infinity;
}

function grpo(rollouts) {
  const total = (rollout, f) => sum(rollout.map((turn) => f(turn.reward)));
  const scored = normalize(rollouts.map((turns) => ({ of: turns, label: 0, x: total(turns, Number), size: total(turns, Math.abs) })));
  return rollouts.map((turns) => turns.map(() => scored.get(turns)));
}

function gigpo(rollouts) {
  const returns = (turns, f) => backward(turns, 0, (turn, next) => f(turn.reward) + GIGPO.discount * next);
  const entries = rollouts.flatMap((turns) => {
    const x = returns(turns, Number), size = returns(turns, Math.abs);
    return turns.map((turn, t) => ({ of: turn, label: turn.state, x: x[t], size: size[t] }));
  });
  const step = normalize(entries), outcome = grpo(rollouts);
  return rollouts.map((turns, i) => turns.map((turn, t) => outcome[i][t] + step.get(turn)));
}

function graphgpo(rollouts) {
  const turns = rollouts.flat(), target = (turn) => (["success", "failed"].includes(turn.end) ? `${turn.next} ${turn.end}` : turn.next);
  const goals = turns.filter((turn) => turn.end === "success").map(target);
  const distance = hops(turns.map((turn) => [turn.state, target(turn)]), goals);
  const farthest = Math.max(0, ...turns.flatMap((turn) => [distance(turn.state), distance(target(turn))]).filter(Number.isFinite));
  const length = (turn) => Math.min(distance(target(turn)), farthest + 1) + 1;
  const step = normalize(turns.map((turn) => ({ of: turn, label: turn.state, x: GRAPHGPO.reward * GRAPHGPO.discount ** length(turn) })));
  const outcome = grpo(rollouts);
  return rollouts.map((own, i) => own.map((turn, t) => outcome[i][t] + step.get(turn)));
}

function grouptd(rollouts) {
  const { prior, discount, lambda, progress, count, test } = GROUPTD, turns = rollouts.flat(), first = rollouts[0];
  const same = (turn, other) => turn.state === other?.state && turn.next === other.next && turn.end === other.end && turn.outcome === other.outcome;
  if (rollouts.length > 1 && rollouts.every((own) => own.length === first.length && own.every((turn, t) => same(turn, first[t]))))
    return rollouts.map((own) => own.map(() => 0)); // nothing in them says which turn was better
  const outcomes = rollouts.map((own) => own[0].outcome), rate = (sum(outcomes) + 1) / (rollouts.length + 2);
  const goal = "success", distance = hops(turns.map((turn) => [turn.state, turn.end === goal ? goal : turn.next]), [goal]);
  const near = (state) => discount ** distance(state), ended = (turn) => turn.end === "success" || turn.end === "failed";
  const from = groupBy(turns, (turn) => turn.state), states = [...new Set(turns.flatMap((turn) => [turn.state, turn.next]))];
  const cut = groupBy(turns.filter((turn) => turn.end === "truncated"), (turn) => turn.next);
  // V[h] has the value of each state with h turns left
  const V = [new Map(states.map((state) => [state, mean((cut.get(state) ?? [{ outcome: 0 }]).map((turn) => turn.outcome))]))];
  while (V.length <= Math.max(...rollouts.map((own) => own.length))) {
    const shorter = V.at(-1), after = (turn) => (ended(turn) ? turn.outcome : shorter.get(turn.next));
    V.push(new Map(states.map((state) => {
      const visits = from.get(state) ?? [];
      return [state, (prior * rate * near(state) + sum(visits.map(after))) / (prior + visits.length)];
    })));
  }
  for (const own of rollouts) own.forEach((turn, t) => {
    const left = V.length - 1 - t;
    turn.delta = (turn.end ? turn.outcome : V[left - 1].get(turn.next)) - V[left].get(turn.state);
    turn.before = t && `${own[t - 1].state} ${own[t - 1].action}`;
  });
  const entered = groupBy(turns.filter((turn) => turn.before), (turn) => turn.state), unit = Math.max(1, ...outcomes.map(Math.abs));
  const factor = (state) => (mergeStatistic(entered.get(state) ?? [], unit) > test ? 1 : lambda);
  return rollouts.map((own) => {
    const steps = backward(own, 0, (turn, next) => turn.delta + (turn.end ? 0 : factor(turn.next) * next));
    return own.map((turn, t) => {
      const after = turn.end === goal ? 1 : turn.end === "failed" ? 0 : near(turn.next);
      return steps[t] / rate + (progress * count / (count + from.get(turn.state).length)) * (after - near(turn.state));
    });
  });
}

// F of the temporal differences after the entries of one state, by how it was entered
function mergeStatistic(entries, unit) {
  const ways = [...groupBy(entries, (turn) => turn.before).values()].map((turns) => turns.map((turn) => turn.delta));
  const n = entries.length, m = ways.length, centre = mean(ways.flat());
  if (m < 2 || n === m) return 0;
  const between = sum(ways.map((xs) => xs.length * (mean(xs) - centre) ** 2)) / (m - 1);
  const within = sum(ways.map((xs) => sum(xs.map((x) => (x - mean(xs)) ** 2)))) / (n - m);
  if (between <= (TIE * unit) ** 2) return 0;
  return within <= (TIE * unit) ** 2 ? Infinity : ((1 - TIE) * between) / within;
}

// The group after the edits: rollouts deleted, outcomes flipped, states[i] replaced by edits.merged[i].
function edited(group, edits) {
  const kept = group.rollouts.map((_, i) => i).filter((i) => !edits.deleted.includes(i));
  return kept.map((i) => {
    const { end, score, turns } = group.rollouts[i], flipped = edits.flipped.includes(i), won = end !== "success";
    const outcome = flipped ? Number(won) : score, result = !flipped ? end : won ? "success" : "failed";
    return turns.map(([state, action, next, reward], t) => {
      const last = t === turns.length - 1;
      return { i, state: edits.merged[state], action, next: edits.merged[next], reward: last && flipped ? outcome : reward, end: last ? result : "", outcome };
    });
  });
}

const SCHEMES = { grpo, gigpo, graphgpo, grouptd };
const credits = (group, edits) => Object.fromEntries(Object.entries(SCHEMES).map(([name, scheme]) => [name, scheme(edited(group, edits))]));

// ---- the page
const page = document.getElementById("credits");
if (page) start(page, JSON.parse(document.getElementById("credits-groups").textContent));

function start(page, groups) {
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
      if (name === "onclick" || name === "onchange") element[name] = value; else element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const choice = (name, options, chosen, choose) => make("fieldset", { class: "choice" }, make("legend", {}, name), ...options.map((option) => {
    const radio = make("input", { type: "radio", name, value: option, onchange: () => choose(option) });
    radio.checked = option === chosen;
    return make("label", {}, radio, option);
  }));
  const signed = (x) => (Math.abs(x) < 0.005 ? "0.00" : (x > 0 ? "+" : "\u2212") + Math.abs(x).toFixed(2));
  const side = (x) => (x > 0 ? "good" : "bad");
  const none = (group) => ({ deleted: [], flipped: [], merged: group.states.map((_, state) => state) });
  const toggled = (list, i) => (list.includes(i) ? list.filter((one) => one !== i) : [...list, i]);
  const parts = ["task", "rollouts", "turn", "status"].map((id) => make(id === "rollouts" ? "ol" : "div", { id: `credits-${id}` }));
  const [task, list, panel, status] = parts;
  status.setAttribute("role", "status");
  let group, edits, before, now, scheme = "grouptd", at = [0, 0];

  const open = (name) => {
    group = groups.find((one) => one.name === name);
    edits = none(group);
    before = credits(group, edits);
    const turns = before.grouptd.flatMap((own, i) => own.map((x, t) => ({ x, place: [i, t] })));
    at = turns.reduce((a, b) => (b.x < a.x ? b : a)).place; // the turn that is blamed most
    show();
  };
  const edit = (change, said) => {
    edits = { ...edits, ...change };
    show();
    status.textContent = said();
  };
  const outcome = (i) => {
    const { end, score } = group.rollouts[i];
    return edits.flipped.includes(i) ? (end === "success" ? "failed" : "success") : end === "failed" && score ? `failed (${score.toFixed(2)})` : end;
  };
  // credit by rollout and turn as numbered in the whole group; undefined for deleted rollouts
  const credit = (of, name, i, t) => {
    const place = of === before ? i : edits.deleted.includes(i) ? -1 : i - edits.deleted.filter((one) => one < i).length;
    return of[name][place]?.[t];
  };
  const largest = (name) => Math.max(0.1, ...[before, now].flatMap((of) => of[name].flat().map(Math.abs)));

  const show = () => {
    const focused = document.activeElement?.id;
    now = credits(group, edits);
    task.replaceChildren(make("p", {}, `Task: ${group.task}`));
    list.replaceChildren(...group.rollouts.map(drawRollout));
    drawPanel();
    document.getElementById(focused)?.focus();
  };
  const drawRollout = (rollout, i) => {
    const deleted = edits.deleted.includes(i), flipped = edits.flipped.includes(i), most = largest(scheme);
    const flip = make("button", { id: `flip-${i}`, type: "button", "aria-pressed": flipped, "aria-label": `flip the outcome of rollout ${i + 1}`,
      onclick: () => edit({ flipped: toggled(edits.flipped, i) }, () => `Rollout ${i + 1} is now: ${outcome(i)}.`) }, "flip");
    const remove = make("button", { id: `delete-${i}`, type: "button", "aria-pressed": deleted, "aria-label": `delete rollout ${i + 1}`,
      onclick: () => edit({ deleted: toggled(edits.deleted, i) }, () => `Rollout ${i + 1} is ${deleted ? "back" : "deleted"}.`) }, deleted ? "restore" : "delete");
    remove.disabled = !deleted && edits.deleted.length === group.rollouts.length - 1;
    flip.disabled = deleted;
    const name = make("span", { class: outcome(i) === "success" ? "good" : "bad" }, `${outcome(i) === "success" ? "\u2713" : "\u2717"} ${outcome(i)}`);
    return make("li", deleted ? { class: "deleted" } : {}, make("div", { class: "head" }, make("div", { class: "name" }, make("b", {}, `Rollout ${i + 1}`), " ", name), flip, remove),
      make("div", { class: "turns", role: "group", "aria-label": `turns of rollout ${i + 1}` }, ...rollout.turns.map((turn, t) => drawTurn(turn, i, t, most))));
  };
  const drawTurn = ([from, action], i, t, most) => {
    const x = credit(now, scheme, i, t), old = credit(before, scheme, i, t), state = edits.merged[from], chosen = at[0] === i && at[1] === t;
    const selected = edits.merged[group.rollouts[at[0]].turns[at[1]][0]];
    const bar = make("span", { class: "bar" });
    const place = (kind, value, height) => {
      const element = make("span", { class: kind });
      element.style.height = `${height}%`;
      element.style.top = `${value > 0 ? 50 - 50 * value / most : 50 - (kind === "was" ? 50 * value / most : 0)}%`;
      bar.append(element);
    };
    if (x !== undefined) place(side(x), x, 50 * Math.abs(x) / most);
    if (x !== undefined && Math.abs(x - old) > 0.02 * most) place("was", old, 0);
    const cell = make("button", { id: `turn-${i}-${t}`, type: "button", tabindex: chosen ? 0 : -1, class: state === selected ? "same" : "", title: group.actions[action],
      "aria-label": `turn ${t + 1}, state ${state + 1}, ${group.actions[action]}: ${x === undefined ? "deleted" : signed(x)}`, onclick: () => select(i, t) }, bar, String(state + 1));
    if (chosen) cell.setAttribute("aria-current", "true");
    return cell;
  };
  const select = (i, t) => {
    at = [i, t];
    show();
    document.getElementById(`turn-${i}-${t}`).focus();
  };
  const drawPanel = () => {
    const [i, t] = at, [from, action] = group.rollouts[i].turns[t], state = edits.merged[from];
    const names = Object.keys(SCHEMES), values = names.map((name) => credit(now, name, i, t)), changes = names.map((name, n) => values[n] - credit(before, name, i, t));
    const row = (head, cells) => make("tr", {}, make("th", { scope: "row" }, head), ...cells);
    const rows = [row("scheme", names.map((name) => make("th", { scope: "col" }, name))),
      row("credit", values.map((x) => make("td", { class: x ? side(x) : "" }, x === undefined ? "\u2013" : signed(x)))),
      row("change", changes.map((x) => make("td", {}, Math.abs(x) > 0.005 ? signed(x) : "")))];
    const others = [...new Set(group.rollouts.flatMap((one) => one.turns.map(([from]) => edits.merged[from])))].filter((other) => other !== state);
    const target = make("select", { id: "merge-with", "aria-label": "another state" }, ...others.map((other) => make("option", { value: other }, String(other + 1))));
    const merge = make("button", { id: "merge", type: "button", onclick: () => {
      const other = Number(target.value);
      edit({ merged: edits.merged.map((one) => (one === state ? other : one)) }, () => `State ${state + 1} is now part of state ${other + 1}.`);
    } }, "merge");
    merge.disabled = !others.length;
    const undo = make("button", { id: "undo", type: "button", onclick: () => edit(none(group), () => "All is as it was recorded.") }, "undo all");
    panel.replaceChildren(make("p", {}, make("b", {}, `Rollout ${i + 1}, turn ${t + 1}: `), make("code", {}, group.actions[action])),
      make("table", {}, ...rows),
      make("p", {}, `Merge state ${state + 1} with state `, target, " ", merge, " ", undo), make("pre", {}, group.states[state]));
  };
  list.addEventListener("keydown", (event) => {
    const [di, dt] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? [0, 0], i = at[0] + di;
    if (!event.target.id.startsWith("turn-") || !(di || dt) || !group.rollouts[i]) return;
    event.preventDefault();
    select(i, Math.max(0, Math.min(group.rollouts[i].turns.length - 1, at[1] + dt)));
  });
  page.replaceChildren(choice("Group", groups.map((one) => one.name), groups[0].name, open),
    choice("Bars", Object.keys(SCHEMES), scheme, (name) => { scheme = name; show(); }), task, make("div", { class: "columns" }, list, panel), status);
  open(groups[0].name);
}
