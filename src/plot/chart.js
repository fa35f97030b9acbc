R"js(
'use strict';
const SVG_NS = 'http://www.w3.org/2000/svg';
function svgNode(name, attributes, text) {
  const node = document.createElementNS(SVG_NS, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
}
function htmlNode(name, attributes, text) {
  const node = document.createElement(name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
}
function niceTicks(low, high, wanted) {
  const raw = (high - low) / Math.max(wanted, 1), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find(f => f * power >= raw * 0.999) || 10);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && ticks.length < 100; ++i) ticks.push(i * step);
  return ticks;
}
// The densest set of round numbers whose neighbours are at least 17 pixels apart.
function logTicks(low, high, pixels) {
  const perDecade = pixels / Math.log10(high / low);
  let ticks = [];
  for (const mantissas of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.floor(Math.log10(high)); ++e)
      for (const m of mantissas) { const v = m * 10 ** e; if (v >= low * 0.9999 && v <= high * 1.0001) ticks.push(v); }
    if (ticks.every((v, i) => i === 0 || perDecade * Math.log10(v / ticks[i - 1]) >= 17)) break;
  }
  if (perDecade < 17) { const n = Math.ceil(17 / perDecade); ticks = ticks.filter((_, i) => i % n === 0); }
  return ticks.length >= 2 ? ticks : niceTicks(low, high, 5);
}
function formatNumber(v) {
  if (v === null || v === undefined || !isFinite(v)) return '–';
  const a = Math.abs(v);
  if (a === 0) return '0';
  if (a >= 1e9) return +(v / 1e9).toPrecision(3) + 'G';
  if (a >= 1e6) return +(v / 1e6).toPrecision(3) + 'M';
  if (a >= 1e4) return +(v / 1e3).toPrecision(3) + 'k';
  if (a < 1e-3) return v.toExponential(2).replace(/\.?0+e/, 'e');
  return String(+v.toPrecision(4));
}
// A line chart that redraws itself at the width it has: hover or arrow keys read values.
// spec: {title, x, y, log, height, series: [{name, color, kind, x: [], y: []}], references: [{name, y}], format}
class LineChart {
  constructor(figure, spec) {
    this.figure = figure;
    this.tip = htmlNode('div', {class: 'tip', hidden: ''});
    this.at = null;
    figure.replaceChildren();
    this.update(spec);
    new ResizeObserver(() => { if (figure.clientWidth !== this.width) this.draw(); }).observe(figure);
  }
  update(spec) { this.spec = spec; this.draw(); }
  draw() {
    const spec = this.spec, width = this.width = this.figure.clientWidth || 600;
    const small = width < 480, height = spec.height || (small ? 250 : 310);
    const shown = v => v !== null && isFinite(v) && (!spec.log || v > 0);
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const s of spec.series) for (let i = 0; i < s.x.length; ++i) {
      if (!shown(s.y[i])) continue;
      x0 = Math.min(x0, s.x[i]); x1 = Math.max(x1, s.x[i]); y0 = Math.min(y0, s.y[i]); y1 = Math.max(y1, s.y[i]);
    }
    const empty = x0 > x1;
    if (empty) { x0 = 0; x1 = 1; y0 = spec.log ? 1 : 0; y1 = spec.log ? 10 : 1; }
    else for (const r of spec.references || []) if (shown(r.y)) { y0 = Math.min(y0, r.y); y1 = Math.max(y1, r.y); }
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    if (spec.log) { if (y1 / y0 < 1.0001) { y0 /= 1.5; y1 *= 1.5; } const m = (y1 / y0) ** 0.03; y0 /= m; y1 *= m; }
    else { if (y1 - y0 <= 1e-9 * Math.abs(y1)) { const m = Math.abs(y0) / 10 || 1; y0 -= m; y1 += m; }
      const m = 0.04 * (y1 - y0); y0 = spec.zero || (y0 >= 0 && y0 < 0.3 * y1) ? 0 : y0 - m; y1 += m; }
    const names = spec.series.filter(s => s.name && s.x.length).map(s => s.name);
    const labelWidth = names.length ? Math.min(small ? 92 : 170, 14 + 6.9 * Math.max(...names.map(n => n.length))) : 16;
    const left = 52, right = width - labelWidth, top = 34, bottom = height - 40;
    const px = x => left + (x - x0) / (x1 - x0) * (right - left);
    const py = y => bottom - (spec.log ? Math.log(y / y0) / Math.log(y1 / y0) : (y - y0) / (y1 - y0)) * (bottom - top);
    const svg = svgNode('svg', {class: 'figure', viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: 'img',
      'aria-label': `${spec.title}. Left and right arrow keys read the values.`});
    svg.append(svgNode('text', {class: 'title', x: 0, y: 16}, spec.title));
    svg.append(svgNode('text', {class: 'quiet', x: 0, y: 31, style: 'font-size:11px'}, spec.y || ''));
    for (const tick of spec.log ? logTicks(y0, y1, bottom - top) : niceTicks(y0, y1, 5)) {
      svg.append(svgNode('line', {class: 'grid', x1: left, x2: right, y1: py(tick), y2: py(tick)}));
      svg.append(svgNode('text', {class: 'quiet', x: left - 7, y: py(tick) + 4, 'text-anchor': 'end'}, formatNumber(tick)));
    }
    const whole = spec.series.every(s => s.x.every(Number.isInteger));
    for (const tick of niceTicks(x0, x1, (right - left) / 85)) if (!whole || Number.isInteger(+tick.toFixed(6)))
      svg.append(svgNode('text', {class: 'quiet', x: px(tick), y: bottom + 17, 'text-anchor': 'middle'}, formatNumber(tick)));
    svg.append(svgNode('text', {class: 'quiet', x: (left + right) / 2, y: bottom + 34, 'text-anchor': 'middle'}, spec.x || ''));
    for (const r of spec.references || []) if (shown(r.y) && !empty) {
      svg.append(svgNode('line', {class: 'reference', x1: left, x2: right, y1: py(r.y), y2: py(r.y)}));
      const below = py(r.y) > (top + bottom) / 2 && py(r.y) + 12 < bottom;  // as in svg_plot.cpp
      svg.append(svgNode('text', {class: 'quiet', x: right - 4, y: py(r.y) + (below ? 11 : -5), 'text-anchor': 'end'}, r.name));
    }
    if (empty) svg.append(svgNode('text', {class: 'quiet', x: (left + right) / 2, y: (top + bottom) / 2, 'text-anchor': 'middle'}, 'nothing logged yet'));
    const labels = [];
    for (const s of spec.series) {
      let d = '', down = false, last = 0;
      const dots = svgNode('g', {style: `fill:var(--c${s.color % 7})`});
      for (let i = 0; i < s.x.length; ++i) {
        if (!shown(s.y[i])) { down = false; continue; }
        const x = px(s.x[i]), y = last = py(s.y[i]);
        d += `${down ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`; down = true;
        if (s.kind === 'dots') dots.append(svgNode('circle', {cx: x, cy: y, r: 3}));
      }
      if (!d) continue;
      svg.append(svgNode('path', {class: 'curve' + (s.kind === 'faint' ? ' faint' : ''), style: `stroke:var(--c${s.color % 7})`, d}));
      svg.append(dots);
      if (s.name) labels.push({y: last + 4, s});
    }
    labels.sort((a, b) => a.y - b.y);
    let limit = top + 4;
    for (const l of labels) { l.y = Math.max(l.y, limit); limit = l.y + 15; }
    limit = bottom + 4;
    for (const l of labels.slice().reverse()) { l.y = Math.min(l.y, limit); limit = l.y - 15; }
    const fit = Math.floor((labelWidth - 12) / 6.7);
    for (const l of labels) svg.append(svgNode('text', {x: right + 7, y: l.y, style: `fill:var(--c${l.s.color % 7})`},
      l.s.name.length > fit ? l.s.name.slice(0, fit - 1) + '…' : l.s.name));
    this.cursor = svgNode('g', {'pointer-events': 'none'});
    svg.append(this.cursor);
    const readable = spec.series.filter(s => s.kind !== 'faint' || !spec.series.some(t => t.kind === 'line'));
    const xs = [...new Set(readable.flatMap(s => s.x))].sort((a, b) => a - b);
    const show = x => {
      this.at = x;
      this.cursor.replaceChildren(svgNode('line', {x1: px(x), x2: px(x), y1: top, y2: bottom, stroke: 'var(--line)'}));
      this.tip.replaceChildren(htmlNode('b', {}, `${spec.x || 'x'} ${spec.formatX ? spec.formatX(x) : formatNumber(x)}`));
      for (const s of readable) {
        let i = nearestIndex(s.x, x);
        if (i < 0 || !shown(s.y[i]) || Math.abs(px(s.x[i]) - px(x)) > 12) continue;
        this.cursor.append(svgNode('circle', {cx: px(s.x[i]), cy: py(s.y[i]), r: 4, style: `fill:var(--c${s.color % 7});stroke:var(--paper);stroke-width:1.5`}));
        const row = htmlNode('div', {});
        row.append(htmlNode('i', {style: `background:var(--c${s.color % 7})`}), document.createTextNode(`${s.tip || s.name || spec.title}  ${(spec.format || formatNumber)(s.y[i])}`));
        this.tip.append(row);
      }
      this.tip.hidden = false;
      const w = this.tip.offsetWidth, scale = svg.clientWidth / width || 1;
      this.tip.style.left = Math.max(0, Math.min(width * scale - w, px(x) * scale + (px(x) > (left + right) / 2 ? -w - 12 : 12))) + 'px';
      this.tip.style.top = (svg.offsetTop + 40) + 'px';
    };
    const hide = () => { this.at = null; this.tip.hidden = true; this.cursor.replaceChildren(); };
    svg.addEventListener('pointermove', e => {
      const box = svg.getBoundingClientRect(), x = x0 + ((e.clientX - box.left) * width / box.width - left) / (right - left) * (x1 - x0);
      const i = nearestIndex(xs, x); if (i >= 0) show(xs[i]);
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', e => {
      if (!xs.length) return;
      const stride = e.shiftKey ? Math.max(1, Math.round(xs.length / 20)) : 1, i = this.at === null ? xs.length - 1 : nearestIndex(xs, this.at);
      const to = {ArrowLeft: this.at === null ? i : i - stride, ArrowRight: i + stride, Home: 0, End: xs.length - 1}[e.key];
      if (e.key === 'Escape') hide();
      if (to === undefined) return;
      e.preventDefault(); show(xs[Math.max(0, Math.min(xs.length - 1, to))]);
    });
    const focused = this.figure.contains(document.activeElement), at = this.at;
    this.figure.querySelector('svg')?.remove(); this.tip.remove();
    this.figure.prepend(svg); this.figure.append(this.tip);
    if (focused) { svg.focus({preventScroll: true}); if (at !== null) show(at); }
    else if (at === null) this.tip.hidden = true;
  }
}
function nearestIndex(sorted, x) {
  let low = 0, high = sorted.length - 1;
  if (high < 0) return -1;
  while (low < high) { const mid = (low + high) >> 1; if (sorted[mid] < x) low = mid + 1; else high = mid; }
  return low > 0 && x - sorted[low - 1] < sorted[low] - x ? low - 1 : low;
}
)js"
