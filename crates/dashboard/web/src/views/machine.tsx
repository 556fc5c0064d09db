// The form for the network of one Machine: given by machine IPAM, or set by hand.

import { useEffect, useState } from "preact/hooks";

import { ask } from "../api";
import { Apply, Errors, Field } from "../fields";
import { list, replaced, send, useChecked, type Version } from "../form";
import { Card } from "../parts";
import { Warnings } from "./clusters";

const SYSTEMS = ["", "ubuntu", "centos", "flatcar", "coreos"];
const GROUPS = ["cluster.k8s.io", "machine.k8s.io"];

interface Network {
  addresses: { cidr: string; gateway: string }[];
  dnsServers: string[];
}

interface View {
  group: string;
  namespace: string;
  name: string;
  version: Version | null;
  isGated: boolean;
  network: Network | null;
  error: string | null;
}

const NEW: View = {
  group: GROUPS[0],
  namespace: "default",
  name: "",
  version: null,
  isGated: true,
  network: null,
  error: null,
};

/** `#/machines/new`, or `#/machines/GROUP/NAMESPACE/NAME`; some have no namespace. */
export function MachineNetwork({ group, path }: { group: string; path: string[] }) {
  const isNew = group === "new";
  const from = `/api/machines/${[group, ...path].map(encodeURIComponent).join("/")}`;
  const [view, setView] = useState<View>();
  const [network, setNetwork] = useState<Network | null>(null);
  const [dns, setDns] = useState("");
  const [system, setSystem] = useState("");
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const [success, setSuccess] = useState<string>();

  const begin = (next: View) => {
    setView(next);
    setNetwork(next.network);
    setDns(next.network?.dnsServers.join(", ") ?? "");
  };
  const load = () => {
    setFailure(undefined);
    setSuccess(undefined);
    if (isNew) begin(NEW);
    else ask<View>(from).then(begin).catch((error) => setFailure(String(error.message ?? error)));
  };
  useEffect(load, [from]);

  const body = view && {
    group: view.group,
    namespace: view.namespace,
    name: view.name,
    version: view.version,
    operatingSystem: system,
    network: network && { ...network, dnsServers: list(dns) },
  };
  // A machine without a name is not checked yet.
  const isNamed = view !== undefined && view.name !== "";
  const told = useChecked("/api/machines/check", isNamed ? body : null, token);

  const { checked } = isNamed ? told : {};
  const title = isNew ? "Make a machine" : `Network of ${path.join("/")}`;
  if (view === undefined) return <Card title={title}>{failure ?? "Reading the Machine…"}</Card>;

  const change = (next: Partial<View>) => {
    setSuccess(undefined);
    setView({ ...view, ...next });
  };
  const turn = (next: Network | null) => {
    setSuccess(undefined);
    setNetwork(next);
  };
  const apply = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      const written = await send<View>("/api/machines", body, token);
      begin(written);
      setSuccess(`Applied to the Machine ${written.name}.`);
    } catch (error) {
      setFailure(String((error as Error).message));
    }
    setBusy(false);
  };
  const errors = checked?.errors ?? [];
  const isMade = view.version !== null;

  return (
    <form onSubmit={apply} aria-busy={isNamed && !told.isCurrent}>
      <Card title={title}>
        <p>
          <a href="#/machines">All machines</a>
        </p>
        {!isMade && (
          <div class="fields">
            <label class="field" for="group">
              <span>Kind</span>
              <select
                id="group"
                value={view.group}
                onChange={(event) => {
                  const group = event.currentTarget.value;
                  change({ group, namespace: group === GROUPS[0] ? "default" : "" });
                }}
              >
                {GROUPS.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            </label>
            {view.group === GROUPS[0] && (
              <Field
                id="namespace"
                label="Namespace"
                value={view.namespace}
                isWrong={errors.some((one) => one.field === "metadata.namespace")}
                describedBy="general"
                onInput={(namespace) => change({ namespace })}
              />
            )}
            <Field
              id="name"
              label="Name"
              value={view.name}
              hint="machine1"
              isWrong={errors.some((one) => one.field === "metadata.name")}
              describedBy="general"
              onInput={(name) => change({ name })}
            />
            <label class="field" for="system">
              <span>Operating system</span>
              <select
                id="system"
                value={system}
                onChange={(event) => setSystem(event.currentTarget.value)}
              >
                {SYSTEMS.map((one) => (
                  <option key={one} value={one}>
                    {one === "" ? "not said" : one}
                  </option>
                ))}
              </select>
            </label>
          </div>
        )}
        {view.error !== null && <p class="failure">{view.error}</p>}
        <label class="switch">
          <input
            id="on"
            type="checkbox"
            checked={network !== null}
            onChange={(event) =>
              turn(
                event.currentTarget.checked
                  ? { addresses: [{ cidr: "", gateway: "" }], dnsServers: [] }
                  : null,
              )
            }
          />{" "}
          The network is set by hand, not by machine IPAM
        </label>
        {network?.addresses.map((address, place) => {
          const set = (next: Partial<typeof address>) => {
            const { addresses } = network;
            turn({ ...network, addresses: replaced(addresses, place, { ...address, ...next }) });
          };
          const row = checked?.rows[place];
          const ofRow = errors.filter((one) => one.row === place);
          const isWrong = (part: string) => ofRow.some((one) => one.field.endsWith(part));
          return (
            <fieldset key={place} data-row={place}>
              <legend>Address {place + 1}</legend>
              <div class="fields">
                <Field
                  id={`cidr-${place}`}
                  label="Address with its length"
                  value={address.cidr}
                  hint="192.168.1.129/25"
                  isWrong={isWrong(".cidr") || isWrong(".ip")}
                  describedBy={`errors-${place}`}
                  onInput={(cidr) => set({ cidr })}
                />
                <Field
                  id={`gateway-${place}`}
                  label="Gateway"
                  value={address.gateway}
                  hint="192.168.1.1"
                  isWrong={isWrong(".gateway")}
                  describedBy={`errors-${place}`}
                  onInput={(gateway) => set({ gateway })}
                />
                {network.addresses.length > 1 && (
                  <span class="buttons">
                    <button
                      type="button"
                      id={`remove-${place}`}
                      onClick={() =>
                        turn({ ...network, addresses: replaced(network.addresses, place) })
                      }
                    >
                      Remove
                    </button>
                  </span>
                )}
              </div>
              <Errors id={`errors-${place}`} errors={address.cidr === "" ? [] : ofRow} />
              {row?.notes.map((note) => (
                <p key={note} class="quiet">
                  {note}
                </p>
              ))}
              <Warnings warnings={row?.warnings ?? []} />
            </fieldset>
          );
        })}
        {network !== null && (
          <>
            <div class="fields">
              <Field
                id="dns"
                label="Name servers"
                value={dns}
                hint="192.168.1.1, 192.168.1.2"
                isWrong={errors.some((one) => one.field.includes(".dns."))}
                describedBy="general"
                onInput={(text) => {
                  setSuccess(undefined);
                  setDns(text);
                }}
              />
            </div>
            <div class="tools">
              <button
                type="button"
                id="add"
                onClick={() => {
                  const { addresses } = network;
                  turn({ ...network, addresses: [...addresses, { cidr: "", gateway: "" }] });
                }}
              >
                Add an address
              </button>
            </div>
          </>
        )}
        <Errors id="general" errors={errors.filter((one) => one.row === undefined)} />
        <Apply
          told={{ ...told, checked }}
          token={token}
          isBusy={isBusy}
          failure={failure}
          success={success}
          onToken={setToken}
          onReload={load}
        />
      </Card>
    </form>
  );
}
