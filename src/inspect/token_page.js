R"js(
const byId = id => document.getElementById(id);
const T = DATA.tokens, percent = p => (100 * p >= 9.95 ? Math.round(100 * p) : (100 * p).toPrecision(2)) + ' %';
const spans = [];
let at = null;
T.forEach(([text, loss], i) => {
  const span = htmlNode('span', {role: 'option', id: 't' + i}, text === '\\n' ? '↵' : text);
  if (loss !== null) {
    const share = Math.min(1, loss / 5);
    span.style.background = `color-mix(in srgb, var(--warm1) ${Math.round(100 * share)}%, var(--warm0))`;
  }
  span.addEventListener('pointerenter', () => show(i));
  spans.push(span); byId('text').append(span);
  if (text === '\\n') byId('text').append('\n');
});
function shown(text) { return text === ' ' ? '␣' : text === '\\n' ? '↵' : text; }
function show(i) {
  if (at !== null) spans[at].classList.remove('at');
  at = i; spans[i].classList.add('at');
  byId('text').setAttribute('aria-activedescendant', 't' + i);
  const [text, loss, rank, expected] = T[i], panel = byId('panel');
  panel.replaceChildren(htmlNode('h3', {}, `Token ${i}: ${shown(text)}`));
  if (loss === null) { panel.append(htmlNode('p', {class: 'quiet'}, 'The first token: nothing predicts it.')); return; }
  panel.append(htmlNode('p', {}, `${loss.toFixed(3)} nats, probability ${percent(Math.exp(-loss))}, ` + (rank === 0 ? 'the most expected' : `${rank} held more probable`)));
  const table = htmlNode('table', {});
  for (const [guess, p] of expected) {
    const row = htmlNode('tr', {}), bar = htmlNode('td', {});
    bar.append(htmlNode('span', {class: 'bar', style: `width:${Math.max(1, 110 * p)}px`}));
    row.append(htmlNode('td', {class: 'mono text'}, shown(guess)), bar, htmlNode('td', {}, percent(p)));
    table.append(row);
  }
  panel.append(htmlNode('p', {class: 'quiet'}, 'It expected:'), table);
}
byId('text').addEventListener('keydown', event => {
  const to = {ArrowLeft: at === null ? 0 : at - 1, ArrowRight: at === null ? 0 : at + 1, Home: 0, End: T.length - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  show(Math.max(0, Math.min(T.length - 1, to)));
  spans[at].scrollIntoView({block: 'nearest'});
});
const xs = T.map((_, i) => i).slice(1), ys = T.slice(1).map(t => t[1]);
const width = Math.max(1, Math.round(ys.length / 24));
const mean = ys.map((_, i) => { const part = ys.slice(Math.max(0, i - width), i + width + 1); return part.reduce((a, b) => a + b, 0) / part.length; });
new LineChart(byId('along'), {title: 'Loss along the text', y: 'nats per token', x: 'token', series: [
  {name: '', color: 0, kind: 'faint', x: xs, y: ys}, {name: 'running mean', color: 0, kind: 'line', x: xs, y: mean}],
  references: [{name: 'knowing nothing: ln V = ' + DATA.uniform.toFixed(3), y: DATA.uniform}], format: v => v.toFixed(3)});
T.map((t, i) => [i, t]).slice(1).sort((a, b) => b[1][1] - a[1][1]).slice(0, 12).forEach(([i, [text, loss, rank, expected]]) => {
  const row = htmlNode('tr', {});
  const before = T.slice(Math.max(0, i - 28), i).map(t => shown(t[0]) === '␣' ? ' ' : shown(t[0])).join('');
  row.append(htmlNode('td', {class: 'text mono'}, shown(text)), htmlNode('td', {class: 'text mono'}, '…' + before), htmlNode('td', {}, loss.toFixed(2)),
    htmlNode('td', {}, percent(Math.exp(-loss))), htmlNode('td', {}, String(rank)), htmlNode('td', {class: 'text mono'}, `${shown(expected[0][0])} (${percent(expected[0][1])})`));
  row.addEventListener('click', () => { show(i); spans[i].scrollIntoView({block: 'center'}); });
  byId('worst').tBodies[0].append(row);
});
)js"
