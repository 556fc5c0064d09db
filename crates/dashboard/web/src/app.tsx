// The page: its location, the state that it follows, and the view that it shows.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";

import "./app.css";
import { follow, type State } from "./api";
import { Header } from "./header";
import { ClusterNetwork, Clusters } from "./views/clusters";
import { Events } from "./views/events";
import { MachineNetwork } from "./views/machine";
import { Machines } from "./views/machines";
import { Nodes } from "./views/nodes";
import { Overview } from "./views/overview";
import { Pods } from "./views/pods";
import { Routes } from "./views/routes";
import { Subnets } from "./views/subnets";

/** `#/subnets/pods` is the view `subnets` with the name `pods`. */
const place = (): string[] => {
  const [, view = "", ...names] = location.hash.split("/");
  return [view, ...names.map(decodeURIComponent)];
};

function View({ at, state }: { at: string[]; state: State }) {
  const [view, name, ...more]: (string | undefined)[] = at;
  switch (view) {
    case "subnets":
      return <Subnets state={state} chosen={name} />;
    case "nodes":
      return <Nodes state={state} />;
    case "pods":
      return <Pods state={state} />;
    case "clusters":
      // The key: for another Cluster the form starts over.
      return name === undefined ? (
        <Clusters state={state} />
      ) : (
        <ClusterNetwork key={name} name={name} />
      );
    case "machines":
      return name === undefined ? (
        <Machines state={state} />
      ) : (
        <MachineNetwork key={at.join("/")} group={name} path={more as string[]} />
      );
    case "routes":
      return <Routes state={state} />;
    case "events":
      return <Events state={state} />;
    default:
      return <Overview state={state} />;
  }
}

function App() {
  const [state, setState] = useState<State>();
  const [isLive, setLive] = useState(false);
  const [at, setAt] = useState(place);
  useEffect(() => follow(setState, setLive), []);
  useEffect(() => {
    const moved = () => setAt(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to the content
      </a>
      <Header state={state} isLive={isLive} view={at[0]} />
      <main id="main" tabIndex={-1}>
        {state === undefined ? (
          <p class="quiet">Reading the cluster…</p>
        ) : (
          <>
            <Notices state={state} />
            <View at={at} state={state} />
          </>
        )}
      </main>
    </>
  );
}

function Notices({ state }: { state: State }) {
  const isReading = state.unsynced.length > 0;
  if (!isReading && state.missing.length === 0) return null;
  return (
    <p class="notice" role="status">
      {isReading && <>Still reading: {state.unsynced.join(", ")}. </>}
      {state.missing.length > 0 && <>This cluster does not have: {state.missing.join(", ")}.</>}
    </p>
  );
}

const root = document.getElementById("app");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
