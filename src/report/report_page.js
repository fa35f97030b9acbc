R"js(
const byId = id => document.getElementById(id);
let runs = DATA.runs;
const choice = {x: 'step', log: false, memory: null};
const last = list => { for (let i = list.length - 1; i >= 0; --i) if (list[i] !== null) return list[i]; return null; };
const shortName = run => run.name.replace(/\/+$/, '').split('/').pop() || run.name;
const names = () => { const all = runs.map(shortName); return new Set(all).size === all.length ? all : runs.map(r => r.name); };
const fixed = (v, n) => v === null || v === undefined ? '–' : v.toFixed(n);
function duration(s) {
  if (s === null || !isFinite(s)) return '–';
  s = Math.round(s);
  if (s < 60) return s + ' s';
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, '0')} s`;
  return s < 86400 ? `${Math.floor(s / 3600)} h ${String(Math.floor(s / 60) % 60).padStart(2, '0')} min` : `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
const bytes = v => v === null ? '–' : v >= 1e9 ? (v / 1e9).toFixed(2) + ' GB' : Math.round(v / 1e6) + ' MB';
const count = v => v === null || v === undefined ? '–' : v >= 1e9 ? (v / 1e9).toFixed(2) + ' G' : v >= 1e6 ? (v / 1e6).toFixed(2) + ' M' : v >= 1e4 ? (v / 1e3).toFixed(1) + ' k' : String(v);
function smooth(values, memory) {
  let sum = 0, weight = 0;
  return values.map(v => { if (v === null) return null; sum = memory * sum + (1 - memory) * v; weight = memory * weight + 1 - memory; return sum / weight; });
}
const defaultMemory = n => Math.min(0.99, 1 - 1 / (n / 100 + 1));
// The slider's middle is the default; its ends are no smoothing and a tenth of all points.
function memoryOf(run) {
  const n = run.loss.length, s = choice.memory === null ? 50 : choice.memory;
  return s <= 50 ? defaultMemory(n * s / 50) : Math.min(0.998, 1 - 1 / (n / 100 * (1 + (s - 50) / 6) + 1));
}
const best = run => run.eval.loss.reduce((b, v, i) => v !== null && (b < 0 || v < run.eval.loss[b]) ? i : b, -1);
const finalLoss = run => last(smooth(run.loss, defaultMemory(run.loss.length)));
const mean = list => { const good = list.filter(v => v !== null); return good.length ? good.reduce((a, b) => a + b, 0) / good.length : null; };
const most = list => list.reduce((a, b) => b !== null && (a === null || b > a) ? b : a, null);
const exp = list => list.map(v => v === null ? null : Math.exp(v));
const axisName = () => ({step: 'step', tokens: 'tokens', seconds: 'seconds of training'})[choice.x];

const charts = {};
function chart(id, parent, spec, wide) {
  spec.x = spec.x || axisName();
  if (spec.x === 'seconds of training') spec.formatX = duration;
  if (charts[id]) { charts[id].update(spec); return; }
  const figure = htmlNode('figure', {class: 'chart' + (wide ? ' wide' : '')});
  parent.append(figure);
  charts[id] = new LineChart(figure, spec);
}
function lossSeries(map) {
  const one = runs.length === 1, label = names();
  return runs.flatMap((run, r) => {
    const out = [];
    if (one) out.push({name: '', color: r, kind: 'faint', x: run[choice.x], y: map(run.loss)});
    out.push({name: one ? 'training' : label[r], color: r, kind: 'line', x: run[choice.x], y: map(smooth(run.loss, memoryOf(run)))});
    if (run.eval.step.length) out.push({name: one ? 'validation' : '', tip: one ? 'validation' : label[r] + ', validation', color: one ? 1 : r, kind: 'dots', x: run.eval[choice.x], y: map(run.eval.loss)});
    return out;
  });
}
function references(map, digits) {
  const first = runs[0], out = [];
  const uniform = first.start && first.start.expected_first_loss;
  if (typeof uniform === 'number') out.push({name: digits ? `uniform guess: ln V = ${uniform.toFixed(3)}` : `uniform guess: ${Math.round(Math.exp(uniform))}`, y: map(uniform)});
  if (first.floor !== null) out.push({name: `floor of the corpus: ${map(first.floor).toFixed(3)}`, y: map(first.floor)});
  return out;
}
function simple(field, scale) {
  const label = names();
  return runs.map((run, r) => ({name: runs.length === 1 ? '' : label[r], color: r, kind: 'line', x: run[choice.x], y: scale ? run[field].map(v => v === null ? null : v * scale) : run[field]}));
}
function drawCharts() {
  const box = byId('charts');
  chart('loss', box, {title: 'Loss', y: 'nats per token' + (runs.length > 1 ? '; dots: validation' : '') + (choice.log ? ', log scale' : ''), log: choice.log, height: innerWidth < 560 ? 290 : 400, series: lossSeries(v => v), references: references(v => v, true), format: v => v.toFixed(4)}, true);
  chart('perplexity', box, {title: 'Perplexity', y: 'exp(loss), log scale', log: true, series: lossSeries(exp), references: references(Math.exp, false), format: v => v.toFixed(2)});
  chart('lr', box, {title: 'Learning rate', y: '', series: simple('learning_rate')});
  chart('norm', box, {title: 'Gradient norm', y: 'before clipping, log scale', log: true, series: simple('grad_norm')});
  chart('rate', box, {title: 'Throughput', y: 'tokens per second', zero: true, series: simple('rate')});
  if (runs.some(run => run.memory.some(v => v))) chart('memory', box, {title: 'Memory', y: 'MB', zero: true, series: simple('memory', 1e-6)});
  runs.forEach((run, r) => {
    if (!run.blocks.step.length) return;
    let parent = byId('parts' + r);
    if (!parent) {
      byId('parts').append(htmlNode('h2', {}, 'The parts of the model' + (runs.length > 1 ? ': ' + names()[r] : '')));
      parent = htmlNode('div', {class: 'charts', id: 'parts' + r});
      byId('parts').append(parent);
    }
    const parts = values => run.blocks.names.map((name, i) => ({name, color: i, kind: 'dots', x: run.blocks.step, y: values[i]}));
    chart('rms' + r, parent, {title: 'Weights', y: 'root mean square', x: 'step', log: true, series: parts(run.blocks.rms)});
    chart('norms' + r, parent, {title: 'Gradients', y: 'norm of each part, before clipping, log scale', x: 'step', log: true, series: parts(run.blocks.norm)});
  });
}
function drawFacts() {
  const box = byId('facts');
  if (runs.length > 1) { byId('lead').textContent = `${runs.length} runs compared.`; box.replaceChildren(); return; }
  const run = runs[0], b = best(run), start = run.start || {};
  byId('lead').textContent = [start.parameters ? count(start.parameters) + ' parameters' : '', start.device ? `${start.device}, ${start.threads} threads, ${start.precision}` : '',
    start.time ? 'last started ' + new Date(1000 * start.time).toISOString().slice(0, 16).replace('T', ' ') + ' UTC' : ''].filter(Boolean).join(' · ');
  const facts = [[last(run.step) === null ? '–' : last(run.step) + (start.total_steps ? ' / ' + start.total_steps : ''), 'steps'], [count(last(run.tokens)), 'tokens'],
    [duration(last(run.seconds)), 'of training'], [fixed(finalLoss(run), 4), 'training loss, smoothed']];
  if (b >= 0) {
    facts.push([fixed(run.eval.loss[b], 4), `best validation loss, step ${run.eval.step[b]}`], [fixed(Math.exp(run.eval.loss[b]), 2), 'perplexity'], [fixed(run.eval.bits[b], 3), 'bits per byte']);
    if (run.floor !== null) facts.push([fixed(run.eval.loss[b] - run.floor, 4), 'above the floor of the corpus']);
  }
  facts.push([count(Math.round(mean(run.rate) || 0)), 'tokens per second']);
  const wrap = htmlNode('div', {class: 'facts'});
  for (const [value, what] of facts) { const d = htmlNode('div', {}); d.append(htmlNode('b', {}, value), htmlNode('span', {}, what)); wrap.append(d); }
  box.replaceChildren(wrap);
}
function tableOf(head, rows, textColumns) {
  const table = htmlNode('table', {}), thead = htmlNode('thead', {}), tbody = htmlNode('tbody', {}), tr = htmlNode('tr', {});
  head.forEach((h, i) => tr.append(htmlNode('th', textColumns && i ? {class: 'text'} : {}, h)));
  if (head.length) { thead.append(tr); table.append(thead); }
  for (const row of rows) {
    const r = htmlNode('tr', {});
    row.forEach((cell, i) => { const td = htmlNode('td', textColumns && i ? {class: 'text'} : {}); td.append(cell); r.append(td); });
    tbody.append(r);
  }
  table.append(tbody);
  const scroll = htmlNode('div', {class: 'scroll'});
  scroll.append(table);
  return scroll;
}
function flat(config, prefix, out) {
  for (const key in config || {}) {
    const v = config[key];
    if (v !== null && typeof v === 'object' && !Array.isArray(v)) flat(v, prefix + key + '.', out); else out[prefix + key] = JSON.stringify(v);
  }
  return out;
}
function drawCompare() {
  const box = byId('compare');
  if (runs.length < 2) { box.replaceChildren(); return; }
  const label = names();
  const named = r => { const span = htmlNode('span', {}); span.append(htmlNode('i', {class: 'dot', style: `background:var(--c${r % 7})`}), label[r]); return span; };
  const rows = runs.map((run, r) => { const b = best(run), start = run.start || {};
    return [named(r), count(start.parameters), count(last(run.step)), count(last(run.tokens)), duration(last(run.seconds)), fixed(finalLoss(run), 4), b < 0 ? '–' : fixed(run.eval.loss[b], 4),
      b < 0 ? '–' : String(run.eval.step[b]), b < 0 ? '–' : fixed(run.eval.bits[b], 3), count(Math.round(mean(run.rate) || 0)), bytes(most(run.memory))]; });
  box.replaceChildren(htmlNode('h2', {}, 'Compared'), tableOf(['run', 'parameters', 'steps', 'tokens', 'time', 'training loss', 'best validation', 'at step', 'bits/byte', 'tokens/s', 'memory'], rows));
  const configs = runs.map(run => flat(run.config, '', {})), keys = [...new Set(configs.flatMap(Object.keys))];
  const differ = keys.filter(k => k !== 'run_dir' && configs.some(c => c[k] !== configs[0][k]));
  if (differ.length) box.append(htmlNode('h3', {}, 'Where their configs differ'), tableOf(['key', ...label], differ.map(k => [htmlNode('code', {}, k), ...configs.map(c => c[k] === undefined ? '–' : c[k])]), true));
}
function drawSamples() {
  const box = byId('samples'), label = names(), cards = [];
  runs.forEach((run, r) => run.samples.forEach(s => {
    const card = htmlNode('div', {class: 'sample'}), pre = htmlNode('pre', {tabindex: 0});
    pre.append(htmlNode('span', {class: 'prompt'}, s.prompt), document.createTextNode(s.text));
    card.append(htmlNode('h3', {}, (runs.length > 1 ? label[r] + ', ' : '') + 'step ' + s.step), pre);
    cards.push(card);
  }));
  if (!cards.length) { box.replaceChildren(); return; }
  const grid = htmlNode('div', {class: 'samples'});
  grid.append(...cards);
  box.replaceChildren(htmlNode('h2', {}, 'What it wrote'), grid);
}
function drawAbout() {
  const box = byId('about'), label = names(), parts = [htmlNode('h2', {}, 'Configuration and environment')];
  runs.forEach((run, r) => {
    const details = htmlNode('details', runs.length === 1 ? {open: ''} : {}), two = htmlNode('div', {class: 'two'}), start = run.start || {};
    details.append(htmlNode('summary', {}, runs.length === 1 ? 'as resolved at the start' : label[r]), two);
    const environment = Object.keys(start).filter(k => k !== 'event' && k !== 'step').map(k => [k.replaceAll('_', ' '), k === 'time' ? new Date(1000 * start[k]).toISOString() : String(start[k])]);
    environment.push(['sessions', String(run.sessions || 1)], ['logged steps', String(run.logged)]);
    if (run.logged > run.step.length) environment.push(['drawn', `${run.step.length} of them: the lowest and highest loss of each stretch`]);
    if (run.bad_lines) environment.push(['lines of metrics.jsonl that could not be read', String(run.bad_lines)]);
    const left = htmlNode('div', {}), right = htmlNode('div', {});
    left.append(htmlNode('h3', {}, 'Configuration'), tableOf([], Object.entries(flat(run.config, '', {})).map(([k, v]) => [htmlNode('code', {}, k), v]), true));
    right.append(htmlNode('h3', {}, 'Environment'), tableOf([], environment, true));
    two.append(right, left);
    parts.push(details);
  });
  box.replaceChildren(...parts);
}
function press(group, button) { for (const b of byId(group).children) b.setAttribute('aria-pressed', b === button); }
for (const b of byId('axis').children) b.addEventListener('click', () => { choice.x = b.dataset.x; press('axis', b); drawCharts(); });
for (const b of byId('scale').children) b.addEventListener('click', () => { choice.log = b.dataset.log === '1'; press('scale', b); drawCharts(); });
byId('memory').addEventListener('input', event => { choice.memory = +event.target.value; drawCharts(); });
byId('controls').hidden = false;
drawFacts(); drawCharts(); drawCompare(); drawSamples(); drawAbout();
if (DATA.live) {
  let before = '';
  const refresh = async () => {
    try {
      const answer = await fetch('data.json', {cache: 'no-store'}), text = await answer.text();
      if (!answer.ok) throw new Error(text);
      if (text !== before) {
        const first = before === '';
        before = text; runs = JSON.parse(text).runs;
        drawFacts(); drawCharts(); drawCompare(); drawSamples();
        if (first) drawAbout();
      }
      byId('live').textContent = 'live, ' + new Date().toLocaleTimeString();
    } catch (error) { byId('live').textContent = 'the server does not answer: is tril report --live still running?'; }
  };
  refresh(); setInterval(refresh, 2000);
}
)js"
