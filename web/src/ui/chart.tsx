/** Live charts: uPlot in the colours of the page, all cursors moving together. */

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock } from "../format";
import { isDark } from "../store";

export interface Line {
  label: string;
  color: string; // a CSS variable
  values: (number | null)[];
  fill?: boolean;
}

interface ChartProps {
  times: number[]; // seconds
  lines: Line[];
  format: (value: number) => string;
  label: string;
  whole?: boolean; // things are counted: there is no half of one
}

const HEIGHT = 160;
const WHOLE_STEPS = Array.from({ length: 12 }, (_, power) =>
  [1, 2, 5].map((first) => first * 10 ** power),
).flat();

export function Chart({ times, lines, format, label, whole = false }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null); // where the cursor is
  const shape = `${isDark.value} ${lines.map((line) => line.label).join()}`;
  const data = [times, ...lines.map((line) => line.values)] as uPlot.AlignedData;

  useEffect(() => {
    const element = place.current!;
    plot.current = new uPlot(options(element, lines, format, whole, setPointed), data, element);
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [times, shape]);

  const at = pointed !== null && pointed < times.length ? pointed : times.length - 1;
  return (
    <figure class="chart">
      <figcaption>
        <h2>{label}</h2>
        <time>{pointed !== null && times[at] ? clock(times[at]) : ""}</time>
      </figcaption>
      <div ref={place} role="img" aria-label={label} />
      <ul>
        {lines.map((line) => (
          <li key={line.label}>
            <i class="swatch" style={{ background: `var(${line.color})` }} />
            {line.label} <b>{told(line.values[at], format)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

const told = (value: number | null | undefined, format: (value: number) => string) =>
  value == null ? "–" : format(value);

function options(
  element: HTMLElement,
  lines: Line[],
  format: (value: number) => string,
  whole: boolean,
  point: (at: number | null) => void,
) {
  const font = getComputedStyle(document.documentElement).fontFamily;
  const resolve = (name: string, opacity = 1) => resolved(element, name, opacity);
  const axis = {
    stroke: resolve("--faint"),
    font: `11px ${font}`,
    grid: { stroke: resolve("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    cursor: { sync: { key: "charts" }, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false },
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.12 : 1] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        space: 80,
        values: (_p, at) => at.map(at.some((one) => one % 60) ? clock : minutes),
      },
      {
        ...axis,
        size: 56,
        space: 32,
        values: (_p, at) => at.map(format),
        ...(whole && { incrs: WHOLE_STEPS }),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: resolve(line.color),
        fill: line.fill ? resolve(line.color, 0.12) : undefined,
        width: 1.5,
        points: { show: false },
        spanGaps: true,
      })),
    ],
  } satisfies uPlot.Options as uPlot.Options;
}

const minutes = (at: number) => clock(at).slice(0, 5);

/** A canvas takes no CSS variables and not every colour: let the browser say it in rgb. */
function resolved(element: HTMLElement, name: string, opacity = 1): string {
  element.style.color = `color-mix(in srgb, var(${name}) ${opacity * 100}%, transparent)`;
  const color = getComputedStyle(element).color;
  element.style.color = "";
  return color;
}

/** A line without axes, for a figure's side. */
export function Spark({ values, color }: { values: number[]; color: string }) {
  if (values.length < 2) return <svg class="spark" aria-hidden="true" />;
  const high = Math.max(...values, 1e-9);
  const x = (at: number) => ((at / (values.length - 1)) * 100).toFixed(1);
  const y = (value: number) => (23 - (value / high) * 21).toFixed(1);
  const line = values.map((value, at) => `${x(at)},${y(value)}`).join(" ");
  return (
    <svg
      class={`spark ${color}`}
      viewBox="0 0 100 24"
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <polygon points={`0,24 ${line} 100,24`} />
      <polyline points={line} />
    </svg>
  );
}
