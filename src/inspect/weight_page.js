R"js(
const byId = id => document.getElementById(id);
const shown = text => text === ' ' ? '␣' : text === '\\n' ? '↵' : text;
// "blocks.2.attn.heads.1.query.weight" -> block 2, kind "attn.query.weight"
const parts = DATA.weights.map(w => {
  const m = /^blocks\.(\d+)\.(.*)$/.exec(w.name);
  return {w, block: m ? +m[1] : null, kind: m ? m[2].replace(/heads\.\d+\./, '') : w.name};
});
const blocks = parts.filter(p => p.block !== null && p.w.spectrum.length);
const kinds = [...new Set(blocks.map(p => p.kind))];
const byBlock = value => kinds.map((kind, k) => {
  const mean = new Map();
  for (const p of blocks.filter(p => p.kind === kind)) mean.set(p.block, [...(mean.get(p.block) || []), value(p.w)]);
  const x = [...mean.keys()].sort((a, b) => a - b);
  return {name: kind.replace(/\.weight$/, ''), color: k, kind: 'dots', x, y: x.map(b => mean.get(b).reduce((a, c) => a + c, 0) / mean.get(b).length)};
});
new LineChart(byId('rms'), {title: 'Root mean square', y: 'mean over the heads where there are several', x: 'block', series: byBlock(w => w.rms)});
new LineChart(byId('norms'), {title: 'Spectral norm', y: 'largest singular value', x: 'block', series: byBlock(w => w.norm)});
const box = document.querySelector('#spectra .charts');
const groups = [...kinds.map(kind => [kind.replace(/\.weight$/, ''), blocks.filter(p => p.kind === kind)]),
  ...parts.filter(p => p.block === null && p.w.spectrum.length).map(p => [p.kind.replace(/\.weight$/, ''), [p]])];
for (const [title, members] of groups) {
  const figure = htmlNode('figure', {class: 'chart'});
  box.append(figure);
  const n = p => Math.min(...p.w.shape);
  new LineChart(figure, {title, y: 'singular value', x: 'rank', log: true, height: 230, series: members.slice(0, 48).map((p, k) => ({
    name: members.length === 1 ? '' : p.block !== null && (k === 0 || members[k - 1].block !== p.block) ? 'block ' + p.block : '',
    color: p.block === null ? 0 : p.block, kind: 'line',
    x: p.w.spectrum.map((_, i) => 1 + Math.round(i * (n(p) - 1) / Math.max(1, p.w.spectrum.length - 1))), y: p.w.spectrum}))});
}
for (const [token, nearest] of DATA.neighbours) {
  const row = htmlNode('div', {});
  row.append(htmlNode('b', {class: 'mono'}, shown(token)));
  for (const [other, cosine] of nearest) row.append(htmlNode('span', {class: 'mono'}, shown(other)), htmlNode('small', {}, ' ' + cosine.toFixed(2) + '  '));
  byId('near').append(row);
}
for (const w of DATA.weights) {
  const row = htmlNode('tr', {});
  for (const text of [w.name, w.shape.join(' × '), formatNumber(w.rms), formatNumber(w.largest), w.spectrum.length ? formatNumber(w.norm) : '', w.spectrum.length ? formatNumber(w.rank) : ''])
    row.append(htmlNode('td', {}, text));
  byId('all').tBodies[0].append(row);
}
)js"
