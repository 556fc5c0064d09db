// Graphs over time, by uPlot.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  name: string;
  /** The CSS variable with its colour. */
  colour: string;
  dash?: number[];
  fill?: boolean;
}

const variable = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const clock = (time: number | null): string =>
  time === null ? "–" : new Date(time * 1000).toTimeString().slice(0, 8);

/** `columns` are the times and one list for each line. `label` says what is seen. */
export function Chart({
  label,
  lines,
  columns,
  format,
}: {
  label: string;
  lines: Line[];
  columns: (number | null)[][];
  format: (value: number) => string;
}) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(columns);
  latest.current = columns;
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const draw = () => {
      plot.current?.destroy();
      const axis = { stroke: variable("--text-quiet"), grid: { stroke: variable("--line") } };
      plot.current = new uPlot(
        {
          width: element.clientWidth,
          height: 180,
          cursor: { y: false },
          scales: { y: { range: (_, __, max) => [0, Math.max(max, 0) * 1.05 || 1] } },
          axes: [
            {
              ...axis,
              ticks: { show: false },
              size: 30,
              space: 80,
              values: (_, times) => times.map(clock),
            },
            {
              ...axis,
              ticks: { show: false },
              size: 64,
              values: (_, values) => values.map(format),
            },
          ],
          series: [
            { label: "time", value: (_: uPlot, time: number | null) => clock(time) },
            ...lines.map((line) => ({
              label: line.name,
              stroke: variable(line.colour),
              width: 2,
              dash: line.dash,
              fill: line.fill ? `${variable(line.colour)}33` : undefined,
              value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
            })),
          ],
        },
        latest.current as uPlot.AlignedData,
        element,
      );
    };
    draw();
    const sized = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: 180 });
    });
    sized.observe(element);
    // The colours are read when the chart is drawn, so another theme draws it again.
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", draw);
    return () => {
      sized.disconnect();
      themed.disconnect();
      system.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [label]);
  useEffect(() => {
    plot.current?.setData(columns as uPlot.AlignedData);
  }, [columns]);
  return (
    <figure class="chart">
      <figcaption>{label}</figcaption>
      <div ref={host} />
    </figure>
  );
}
