// Charts: lines over steps with a readout for the pointer and the keyboard; bars of predictions.
"use strict";

const charts = (() => {
  const { useEffect, useRef, useState } = preactHooks;
  const HEIGHT = 176;
  const LEFT = 46;
  const RIGHT = 14;
  const TOP = 12;
  const BOTTOM = 24;
  const DOTS = 60;

  const digits = (value) => {
    if (Number.isInteger(value)) return value.toLocaleString("en");
    return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
  };
  /** A number as it is written; `form` is `share`, `accuracy` or none. */
  const said = (value, form) => {
    if (form === "share") return `${(100 * value).toFixed(1)}%`;
    return form === "accuracy" ? value.toFixed(3) : digits(value);
  };

  /** Round numbers that cover a range. */
  const ticks = (low, high, count) => {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const factors = [[10, 7.07], [5, 3.16], [2, 1.41], [1, 0]];
    const step = power * factors.find(([, least]) => rough / power >= least)[0];
    const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const list = [];
    for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-6; tick += step)
      list.push(Number(tick.toFixed(places)));
    return list;
  };

  /** The mean over a window that grows with the line, as reports draw it. */
  const smoothed = (points) => {
    if (points.length < 20) return points;
    const half = Math.min(25, Math.max(2, Math.floor(points.length / 40)));
    return points.map(([x], place) => {
      const near = points.slice(Math.max(0, place - half), place + half + 1);
      return [x, near.reduce((sum, [, y]) => sum + y, 0) / near.length];
    });
  };

  const useWidth = () => {
    const box = useRef();
    const [width, setWidth] = useState(0);
    useEffect(() => {
      const seen = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
      seen.observe(box.current);
      return () => seen.disconnect();
    }, []);
    return [box, width];
  };

  /** From where to where the values are drawn; a share spans a tenth, so that noise stays small. */
  const range = (values, cover, form) => {
    const all = [...values, ...(cover ?? [])];
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const lacking = Math.max(0, (form ? 0.1 : 0.01) - (high - low));
    const [down, up] = cover?.includes(low) ? [0, lacking] : [lacking / 2, lacking / 2];
    const room = (high - low + lacking) * 0.08;
    const [floor, top] = [cover?.includes(low) ? low : low - down - room, high + up + room];
    if (!form) return [floor, top];
    return [Math.max(Math.min(0, low), floor), Math.min(Math.max(1, high), top)];
  };

  const scale = (width, xs, ys, cover, form) => {
    const [first, last] = [xs[0], xs.at(-1)];
    const [low, high] = range(ys, cover, form);
    const across = (width - LEFT - RIGHT) / (last - first || 1);
    const up = (HEIGHT - TOP - BOTTOM) / (high - low);
    return {
      x: (value) => (last === first ? (LEFT + width - RIGHT) / 2 : LEFT + (value - first) * across),
      y: (value) => HEIGHT - BOTTOM - (value - low) * up,
      across: ticks(first, last, Math.max(2, Math.floor(width / 110))),
      up: ticks(low, high, 4),
      value: (place) => first + (place - LEFT) / across,
    };
  };

  const path = (points, at) =>
    points
      .map(([x, y]) => `${at.x(x).toFixed(1)} ${at.y(y).toFixed(1)}`)
      .join("L")
      .replace(/^/, "M");

  const Grid = ({ at, width, form }) => html`
    ${at.up.map((tick) => html`
      <line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${at.y(tick)} y2=${at.y(tick)} />
      <text class="end" x=${LEFT - 8} y=${at.y(tick) + 4}>
        ${form === "share" ? `${Number((100 * tick).toPrecision(6))}%` : tick.toLocaleString("en")}
      </text>`)}
    ${at.across.filter(Number.isInteger).map((tick) => html`
      <text class="middle" x=${at.x(tick)} y=${HEIGHT - 6}>${tick.toLocaleString("en")}</text>`)}`;

  const Line = ({ line, at }) => {
    const smooth = line.exact ? line.points : smoothed(line.points);
    const raw = smooth !== line.points && path(line.points, at);
    return html`<g class=${line.colour}>
      ${raw && html`<path class="raw" d=${raw} />`}
      <path class=${line.dashed ? "line dashed" : "line"} d=${path(smooth, at)} />
      ${line.points.length <= DOTS && !raw && line.points.map(([x, y]) => html`
        <circle class="dot" cx=${at.x(x)} cy=${at.y(y)} r="2.6" />`)}
    </g>`;
  };

  const Cursor = ({ lines, at, x }) => html`
    <line class="cursor" x1=${at.x(x)} x2=${at.x(x)} y1=${TOP} y2=${HEIGHT - BOTTOM} />
    ${lines.map((line) => line.points.filter(([place]) => place === x).map(([, y]) => html`
      <circle class=${`dot ${line.colour}`} cx=${at.x(x)} cy=${at.y(y)} r="4.5" />`))}`;

  /** What the lines say at a place. */
  const readout = (lines, x, form) =>
    lines
      .flatMap((line) => line.points.filter(([place]) => place === x)
        .map(([, y]) => (lines.length > 1 ? `${line.name} ${said(y, form)}` : said(y, form))))
      .join(" · ");

  const nearest = (xs, value) => {
    const away = (place) => Math.abs(xs[place] - value);
    return xs.reduce((best, _, place) => (away(place) < away(best) ? place : best), 0);
  };

  const moved = (key, place, count) => {
    const from = place ?? count - 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, ArrowDown: from - 1, ArrowUp: from + 1,
      PageDown: from - 10, PageUp: from + 10, Home: 0, End: count - 1 }[key];
    return to === undefined ? undefined : Math.min(count - 1, Math.max(0, to));
  };

  const Legend = ({ lines }) => lines.length > 1 && html`<ul class="legend">
    ${lines.map((line) => html`<li>
      <span class=${`swatch ${line.colour} ${line.dashed ? "dashed" : ""}`}></span>${line.name}
    </li>`)}
  </ul>`;

  /** Lines over steps; `open` goes to the place that is clicked. Lists of [x, y] in order of x. */
  const Chart = ({ title, note, lines, form, cover, unit = "step", open }) => {
    const [box, width] = useWidth();
    const [place, setPlace] = useState(null);
    const drawn = lines.filter((line) => line.points.length);
    const places = drawn.flatMap((line) => line.points.map(([x]) => x));
    const xs = [...new Set(places)].sort((a, b) => a - b);
    if (!xs.length) return null;
    const ys = drawn.flatMap((line) => line.points.map(([, y]) => y));
    const at = width > 0 && scale(width, xs, ys, cover, form);
    const here = xs[Math.min(place ?? xs.length - 1, xs.length - 1)];
    const value = readout(drawn, here, form);
    const number = (here >= 100 ? Math.round(here) : here).toLocaleString("en");
    const where = unit === "step" ? `step ${number}` : `${number} ${unit}`;
    const keyed = (event) => {
      const to = moved(event.key, place, xs.length);
      if (to !== undefined) {
        event.preventDefault();
        setPlace(to);
      } else if (event.key === "Enter" && open) open(here);
    };
    const pointed = (event) => {
      const left = event.currentTarget.getBoundingClientRect().left;
      return nearest(xs, at.value(event.clientX - left));
    };
    return html`<figure class="chart">
      <figcaption><span class="name">${title}</span>
        <span class="value">${value} <small>${where}</small></span>
      </figcaption>
      <${Legend} lines=${drawn} />
      <div ref=${box} class="plot">
        ${at && html`<svg width=${width} height=${HEIGHT} class=${open ? "opens" : ""}
          role="slider" tabindex="0" aria-label=${`${title}, by ${unit}`} aria-valuemin="0"
          aria-valuemax=${xs.length - 1} aria-valuenow=${place ?? xs.length - 1}
          aria-valuetext=${`${where}: ${value}`} onKeyDown=${keyed}
          onPointerMove=${(event) => setPlace(pointed(event))}
          onPointerLeave=${() => setPlace(null)} onBlur=${() => setPlace(null)}
          onClick=${(event) => open?.(xs[pointed(event)])}>
          <${Grid} at=${at} width=${width} form=${form} />
          ${drawn.map((line) => html`<${Line} key=${line.name} line=${line} at=${at} />`)}
          ${place !== null && html`<${Cursor} lines=${drawn} at=${at} x=${here} />`}
        </svg>`}
      </div>
      ${note && html`<p class="soft note">${note}</p>`}
    </figure>`;
  };

  const share = (value, whole) => `${Math.max(0, Math.min(100, (100 * value) / whole))}%`;

  /** A prediction as a bar, and what came of it as a mark on it. */
  const Bar = ({ predicted, realised, whole }) => {
    const known = typeof realised === "number";
    const words = [
      typeof predicted === "number" ? `predicted ${digits(predicted)}` : "no prediction",
      known ? `realised ${digits(realised)}` : "",
    ];
    return html`<svg class="bar" role="img" aria-label=${words.filter(Boolean).join(", ")}>
      <rect class="track" y="4" width="100%" height="8" rx="4" />
      ${typeof predicted === "number" && html`
        <rect class="fill" y="4" width=${share(predicted, whole)} height="8" rx="4" />`}
      ${known && html`<svg x=${share(realised, whole)} class="outer">
        <rect class="tick" x="-1.5" width="3" height="16" rx="1.5" /></svg>`}
    </svg>`;
  };

  /** The largest prediction or outcome of some rows; a variance of rewards has at most 1/4. */
  const whole = (rows) =>
    Math.max(0.25, ...rows.flatMap((row) => [row.score ?? 0, row.variance ?? 0]));

  return { Bar, Chart, digits, said, whole };
})();
