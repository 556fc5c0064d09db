// The bar on top: the views, whether the page is live, and the theme.

import { useEffect, useState } from "preact/hooks";

import type { State } from "./api";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

export const VIEWS: [string, string][] = [
  ["", "Overview"],
  ["subnets", "Subnets"],
  ["nodes", "Nodes"],
  ["pods", "Pods"],
  ["machines", "Machines"],
  ["clusters", "Clusters"],
  ["routes", "Routes"],
  ["events", "Events"],
];

const kept = (): Theme => THEMES.find((one) => one === localStorage.getItem("theme")) ?? "auto";

export function Header({
  state,
  isLive,
  view,
}: {
  state: State | undefined;
  isLive: boolean;
  view: string;
}) {
  const [theme, setTheme] = useState<Theme>(kept);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  const title = VIEWS.find(([path]) => path === view)?.[1] ?? "Overview";
  useEffect(() => {
    document.title = `${title} – Berth`;
  }, [title]);
  // Most Kubernetes clusters have no Cluster objects.
  const isShown = (path: string) =>
    path !== "clusters" || view === path || (state?.clusters.length ?? 0) > 0;
  const waiting: Record<string, number | undefined> = {
    pods: state?.totals.podsWaiting,
    machines: state?.totals.machinesWaiting,
    routes: state?.totals.routes.missing,
  };
  return (
    <header>
      <div class="bar">
        <h1>
          <img src="/icon.svg" alt="" width="22" height="22" /> Berth
        </h1>
        <span class={isLive ? "live" : "live lost"} role="status">
          {isLive ? "live" : "no connection; trying again"}
        </span>
        <span class="about">
          {state && `${state.api} · version ${state.version}`}
        </span>
        <label class="theme">
          <span class="hidden">Colours</span>
          <select
            value={theme}
            onChange={(event) => setTheme(event.currentTarget.value as Theme)}
          >
            {THEMES.map((one) => (
              <option key={one} value={one}>
                {one === "auto" ? "as the system" : one}
              </option>
            ))}
          </select>
        </label>
      </div>
      <nav aria-label="Views">
        {VIEWS.filter(([path]) => isShown(path)).map(([path, name]) => (
          <a key={path} href={`#/${path}`} aria-current={path === view ? "page" : undefined}>
            {name}
            {(waiting[path] ?? 0) > 0 && (
              <span class="badge" aria-label={`, ${waiting[path]} waiting`}>
                {waiting[path]}
              </span>
            )}
          </a>
        ))}
      </nav>
    </header>
  );
}
