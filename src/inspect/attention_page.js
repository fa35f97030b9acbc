R"js(
const N = DATA.tokens.length;
const byId = id => document.getElementById(id);
for (const head of DATA.heads) {
  const bytes = Uint8Array.from(atob(head.w), c => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  head.a = Float32Array.from({length: N * (N + 1) / 2}, (_, k) => view.getUint16(2 * k, true) / 65535);
}
const weight = (head, i, j) => head.a[i * (i + 1) / 2 + j];
const percent = w => (100 * w >= 9.95 ? Math.round(100 * w) : (100 * w).toFixed(1)) + ' %';
const quoted = i => '“' + DATA.tokens[i] + '”';
const label = i => ({' ': '␣', '\\n': '↵', '\\t': '⇥'})[DATA.tokens[i]] || DATA.tokens[i];
const name = head => `block ${head.block}, head ${head.head}`;
let chosen = DATA.heads[DATA.first || 0], query = DATA.row, key = null;

let shades = [];
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const rgb = v => { const h = style.getPropertyValue(v).trim(); return [1, 3, 5].map(k => parseInt(h.slice(k, k + 2), 16)); };
  const low = rgb('--heat0'), high = rgb('--heat1');
  shades = Array.from({length: 256}, (_, s) => low.map((c, k) => Math.round(c + (high[k] - c) * s / 255)));
}
const shade = w => shades[Math.round(255 * Math.sqrt(w))];
const css = c => `rgb(${c[0]},${c[1]},${c[2]})`;

// One pixel per pair, drawn larger where needed; the mask stays transparent.
function mapImage(head) {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = N;
  const context = canvas.getContext('2d'), image = context.createImageData(N, N);
  for (let i = 0; i < N; ++i) for (let j = 0; j <= i; ++j) {
    const c = shade(weight(head, i, j)), at = 4 * (i * N + j);
    image.data[at] = c[0]; image.data[at + 1] = c[1]; image.data[at + 2] = c[2]; image.data[at + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const strip = byId('strip'), spans = [];
DATA.tokens.forEach((token, i) => {
  const span = htmlNode('span', {role: 'option', id: 't' + i}, token === '\\n' ? '↵' : token);
  span.addEventListener('click', () => { query = i; key = null; showRow(); });
  span.addEventListener('pointerenter', () => { if (i <= query && i !== query) { key = i; drawCursor(); tell(); } });
  spans.push(span); strip.append(span);
  if (token === '\\n') strip.append(document.createTextNode('\n'));
});
function tell() {
  const row = Array.from({length: query + 1}, (_, j) => [weight(chosen, query, j), j]).sort((a, b) => b[0] - a[0]);
  const place = j => j === query ? 'itself' : `${quoted(j)} ${query - j} back`;
  byId('says').textContent = key !== null && key <= query
    ? `Token ${query} ${quoted(query)} looks at token ${key} ${quoted(key)}, ${query - key} back: ${percent(weight(chosen, query, key))}`
    : `Token ${query} ${quoted(query)} looks at ` + row.slice(0, 4).filter(r => r[0] > 0.005).map(r => `${place(r[1])} (${percent(r[0])})`).join(', ');
}
function showRow() {
  spans.forEach((span, j) => {
    const w = j <= query ? weight(chosen, query, j) : 0, strong = w > 0.35;
    span.className = j > query ? 'future' : j === query ? 'query' : '';
    span.style.background = j <= query && w > 0.004 ? css(shade(w)) : '';
    span.style.color = strong ? 'var(--paper)' : '';
    span.setAttribute('aria-selected', j === query);
  });
  strip.setAttribute('aria-activedescendant', 't' + query);
  const span = spans[query], top = span.offsetTop - strip.offsetTop;
  if (top < strip.scrollTop || top > strip.scrollTop + strip.clientHeight - 30) strip.scrollTop = top - strip.clientHeight / 2;
  drawCursor(); tell();
}

const canvas = byId('map');
let cell = 1, edge = 0, image = null;
function drawMap() {
  const width = Math.min(byId('map-box').clientWidth, 760);
  const longest = Math.min(8, Math.max(...DATA.tokens.map((_, i) => label(i).length)));
  edge = (width - 14) / N >= 9 ? 10 + 7 * longest : 2;
  cell = (width - edge - 2) / N;
  const side = edge + cell * N + 2, ratio = window.devicePixelRatio || 1;
  canvas.style.width = canvas.style.height = side + 'px';
  canvas.width = canvas.height = Math.round(side * ratio);
  image = mapImage(chosen);
  drawCursor();
}
function drawCursor() {
  if (!image) return;
  const context = canvas.getContext('2d'), ratio = canvas.width / parseFloat(canvas.style.width);
  const style = getComputedStyle(document.documentElement), color = v => style.getPropertyValue(v).trim();
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = color('--mask');
  context.fillRect(edge, edge, cell * N, cell * N);
  context.imageSmoothingEnabled = false;
  context.drawImage(image, edge, edge, cell * N, cell * N);
  context.strokeStyle = color('--edge'); context.lineWidth = 1;
  context.strokeRect(edge, edge, cell * N, cell * N);
  if (edge > 2) {
    context.font = `${Math.min(13, cell + 1)}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace`;
    context.textBaseline = 'middle';
    for (let i = 0; i < N; ++i) {
      const text = label(i).slice(0, 8), middle = edge + (i + 0.5) * cell;
      context.fillStyle = color(i === query ? '--mark' : '--ink'); context.textAlign = 'right';
      context.fillText(text, edge - 5, middle);
      context.save(); context.fillStyle = color(i === key ? '--mark' : '--ink');
      context.translate(middle, edge - 5); context.rotate(-Math.PI / 2); context.textAlign = 'left'; context.fillText(text, 0, 0); context.restore();
    }
  }
  context.strokeStyle = color('--mark'); context.lineWidth = 1.5;
  context.strokeRect(edge, edge + query * cell, (query + 1) * cell, cell);
  if (key !== null && key <= query) { context.strokeRect(edge + key * cell, edge + key * cell, cell, (N - key) * cell); }
}
function mapPlace(event) {
  const box = canvas.getBoundingClientRect();
  const j = Math.floor((event.clientX - box.left - edge) / cell), i = Math.floor((event.clientY - box.top - edge) / cell);
  return i >= 0 && i < N && j >= 0 && j < N ? [i, j] : null;
}
const tip = byId('tip');
function showTip(i, j) {
  tip.replaceChildren(htmlNode('b', {}, j > i ? 'masked' : percent(weight(chosen, i, j))),
    htmlNode('div', {}, j > i ? `token ${j} comes after token ${i}` : `${quoted(i)} (${i}) looks at ${quoted(j)} (${j})`));
  tip.hidden = false;
  const x = edge + j * cell, w = tip.offsetWidth;
  tip.style.left = Math.max(0, Math.min(byId('map-box').clientWidth - w, x > canvas.clientWidth / 2 ? x - w - 10 : x + cell + 10)) + 'px';
  tip.style.top = Math.max(0, edge + i * cell - 50) + 'px';
}
canvas.addEventListener('pointermove', event => {
  const place = mapPlace(event);
  if (!place) { tip.hidden = true; return; }
  showTip(...place);
  if (place[1] <= place[0]) { [query, key] = place; showRow(); }
});
canvas.addEventListener('pointerleave', () => { tip.hidden = true; key = null; drawCursor(); tell(); });
canvas.addEventListener('keydown', event => {
  const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
  if (event.key === 'Escape') { tip.hidden = true; key = null; drawCursor(); tell(); }
  if (!move) return;
  event.preventDefault();
  if (key === null) key = query;
  query = Math.max(0, Math.min(N - 1, query + move[0]));
  key = Math.max(0, Math.min(query, key + move[1]));
  showRow(); showTip(query, key);
});
canvas.addEventListener('blur', () => { tip.hidden = true; });
strip.addEventListener('keydown', event => {
  const to = {ArrowLeft: query - 1, ArrowRight: query + 1, Home: 0, End: N - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  query = Math.max(0, Math.min(N - 1, to)); key = null; showRow();
});

const buttons = DATA.heads.map(head => {
  const button = htmlNode('button', {type: 'button', title: `${name(head)}: ${head.role}`});
  button.append(document.createElement('canvas'), document.createTextNode(`${head.block}.${head.head}`), htmlNode('small', {}, head.role));
  button.addEventListener('click', () => choose(head));
  byId('grid').append(button);
  return button;
});
function drawThumbnails() {
  DATA.heads.forEach((head, k) => {
    const small = buttons[k].querySelector('canvas'), side = 132;
    small.width = small.height = side;
    const context = small.getContext('2d');
    context.imageSmoothingEnabled = N > side; context.imageSmoothingQuality = 'high';
    context.drawImage(mapImage(head), 0, 0, side, side);
  });
  const scale = byId('scale').getContext('2d');
  for (let x = 0; x < 180; ++x) { scale.fillStyle = css(shade((x / 179) ** 2)); scale.fillRect(x, 0, 1, 12); }
}
const columns = [['head', 'head', h => h.block * 1000 + h.head, h => `${h.block}.${h.head}`], ['role', 'does most', h => h.role, h => h.role],
  ['induction', 'induction', h => h.induction, null], ['chance', 'by chance', h => h.chance, null], ['mention', 'mention', h => h.mention, null],
  ['previous', 'previous', h => h.previous, null], ['start', 'first', h => h.start, null], ['itself', 'itself', h => h.itself, null],
  ['distance', 'distance', h => h.distance, h => h.distance.toFixed(1)], ['share', 'entropy', h => h.share, null]];
const meaning = {head: 'block.head', induction: 'at repeats: weight on what came next the last time', chance: 'what a head that looks everywhere alike would get',
  mention: 'at repeats: weight on the earlier mention itself', previous: 'weight on the token before', start: 'weight on the first token', itself: 'weight on the token itself',
  distance: 'mean distance looked back, in tokens', share: 'entropy of a row as a share of the most it can be', role: ''};
let sorted = 'induction', falling = true;
function drawTable() {
  const head = htmlNode('tr', {});
  for (const [id, title] of columns) {
    const th = htmlNode('th', {title: meaning[id], class: id === 'role' ? 'text' : '', ...(id === sorted ? {'aria-sort': falling ? 'descending' : 'ascending'} : {})});
    const button = htmlNode('button', {type: 'button'}, title + (id === sorted ? (falling ? ' ↓' : ' ↑') : ''));
    button.addEventListener('click', () => { falling = id === sorted ? !falling : id !== 'head' && id !== 'role'; sorted = id; drawTable(); });
    th.append(button); head.append(th);
  }
  const refocus = document.activeElement?.closest('#table th') ? [...document.activeElement.closest('tr').children].indexOf(document.activeElement.closest('th')) : -1;
  byId('table').tHead.replaceChildren(head);
  if (refocus >= 0) head.children[refocus].firstChild.focus();
  const value = columns.find(c => c[0] === sorted)[2];
  const rows = DATA.heads.slice().sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (falling ? -1 : 1); });
  byId('table').tBodies[0].replaceChildren(...rows.map(h => {
    const tr = htmlNode('tr', {class: h === chosen ? 'chosen' : ''});
    for (const [id, , get, show] of columns) {
      const v = get(h);
      tr.append(htmlNode('td', {class: id === 'role' ? 'text' : ''}, show ? show(h) : v === null ? '–' : percent(v)));
    }
    tr.addEventListener('click', () => choose(h));
    return tr;
  }));
}
function choose(head) {
  chosen = head; key = null;
  byId('name').textContent = `Block ${head.block}, head ${head.head}: ${head.role}`;
  byId('role').textContent = head.induction === null ? 'Nothing repeats in this text: a longer one tells more.'
    : `At repeats ${percent(head.induction)} of its attention goes to what came next the last time (by chance ${percent(head.chance)}).`;
  buttons.forEach((button, k) => button.setAttribute('aria-pressed', DATA.heads[k] === head));
  drawMap(); showRow(); drawTable();
}
function redraw() { readColors(); drawThumbnails(); drawMap(); showRow(); }
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
addEventListener('resize', drawMap);
readColors(); drawThumbnails(); choose(chosen);
)js"
