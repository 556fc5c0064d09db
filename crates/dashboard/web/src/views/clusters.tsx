// Clusters with machines of their own, and the form for the machine network of one.

import { useEffect, useState } from "preact/hooks";

import { ask, type State } from "../api";
import { Apply, Errors, Field } from "../fields";
import { list, send, useChecked, type FieldError, type Row, type Version } from "../form";
import { Card, Nothing, Table } from "../parts";
import { number } from "../words";

export function Clusters({ state }: { state: State }) {
  return (
    <Card
      title="Clusters"
      note="Machines of a Cluster on vSphere can have their addresses from CIDRs, without DHCP."
    >
      {state.clusters.length === 0 ? (
        <Nothing>There are no Clusters here.</Nothing>
      ) : (
        <Table label="Clusters" head={["Cluster", "Cloud", "Machine network"]}>
          {state.clusters.map((cluster) => (
            <tr key={cluster.name}>
              <th scope="row">
                {cluster.isVsphere ? (
                  <a href={`#/clusters/${encodeURIComponent(cluster.name)}`}>{cluster.name}</a>
                ) : (
                  cluster.name
                )}
              </th>
              <td>{cluster.isVsphere ? "vSphere" : "another"}</td>
              <td>{cluster.cidrs.join(", ") || "off"}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

interface Network {
  cidr: string;
  gateway: string;
  dnsServers: string[];
}

interface View {
  name: string;
  version: Version;
  isVsphere: boolean;
  style: "blocks" | "list";
  networks: Network[];
  gateway: string;
  dnsServers: string[];
}

/** A row as it is typed. The key stays with it when rows move. */
interface Typed {
  key: number;
  cidr: string;
  gateway: string;
  dns: string;
}

let keys = 0;
const typed = (network?: Network): Typed => ({
  key: ++keys,
  cidr: network?.cidr ?? "",
  gateway: network?.gateway ?? "",
  dns: network?.dnsServers.join(", ") ?? "",
});

export function ClusterNetwork({ name }: { name: string }) {
  const path = `/api/clusters/${encodeURIComponent(name)}`;
  const [view, setView] = useState<View>();
  const [isOn, setOn] = useState(false);
  const [rows, setRows] = useState<Typed[]>([]);
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const [success, setSuccess] = useState<string>();

  const begin = (next: View) => {
    setView(next);
    setOn(next.networks.length > 0);
    setRows(next.networks.map(typed));
  };
  const load = () => {
    setFailure(undefined);
    setSuccess(undefined);
    ask<View>(path).then(begin).catch((error) => setFailure(String(error.message ?? error)));
  };
  useEffect(load, [path]);

  const networks = rows.map(({ cidr, gateway, dns }) => ({ cidr, gateway, dnsServers: list(dns) }));
  const body = view && { version: view.version, networks: isOn ? networks : [] };
  const told = useChecked(`${path}/check`, body ?? null, token);

  const { checked } = told;
  if (view === undefined) return <Card title={name}>{failure ?? "Reading the Cluster…"}</Card>;
  if (!view.isVsphere) {
    return (
      <Card title={name}>
        <Nothing>A machine network is for Clusters on vSphere (spec.cloud.vsphere) only.</Nothing>
      </Card>
    );
  }

  const change = (next: Typed[]) => {
    setSuccess(undefined);
    setRows(next);
  };
  const turn = (on: boolean) => {
    setSuccess(undefined);
    setOn(on);
    if (on && rows.length === 0) setRows([typed()]);
  };
  const apply = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      begin(await send<View>(path, body, token));
      setSuccess(`Applied to the Cluster ${name}.`);
    } catch (error) {
      setFailure(String((error as Error).message));
    }
    setBusy(false);
  };
  // A new row shows no errors until something is typed into it.
  const isEmpty = (row: Typed) => row.cidr + row.gateway + row.dns === "";
  const errors = checked?.errors ?? [];
  const ofRow = (place: number): FieldError[] =>
    isEmpty(rows[place]) ? [] : errors.filter((one) => one.row === place);
  const general = errors.filter((one) => one.row === undefined || !isOn);

  return (
    <form onSubmit={apply} aria-busy={!told.isCurrent}>
      <Card title={`Machine network of ${name}`}>
        <p>
          <a href="#/clusters">All Clusters</a>
        </p>
        <label class="switch">
          <input
            id="on"
            type="checkbox"
            checked={isOn}
            onChange={(event) => turn(event.currentTarget.checked)}
          />{" "}
          Machines get their addresses from CIDRs, without DHCP
        </label>
        {isOn && view.style === "blocks" && (
          <p class="quiet">
            This Cluster has the same gateway ({view.gateway || "none"}) and name servers (
            {view.dnsServers.join(", ") || "none"}) for all of its CIDRs.
          </p>
        )}
        {isOn &&
          rows.map((row, place) => (
            <NetworkRow
              key={row.key}
              place={place}
              row={row}
              errors={ofRow(place)}
              told={checked?.rows[place]}
              hasOwn={view.style === "list"}
              onChange={(next) => change(rows.map((one) => (one.key === row.key ? next : one)))}
              onRemove={() => change(rows.filter((one) => one.key !== row.key))}
              onUp={() => {
                const others = rows.filter((one) => one.key !== row.key);
                change([...others.slice(0, place - 1), row, ...others.slice(place - 1)]);
              }}
            />
          ))}
        {isOn && (
          <div class="tools">
            <button type="button" id="add" onClick={() => change([...rows, typed()])}>
              Add a CIDR
            </button>
            {checked?.machines !== undefined && (
              <span id="fit">
                In all, <b>{number(checked.machines)}</b> machines find an address.
              </span>
            )}
          </div>
        )}
        <Errors id="general" errors={general} />
        <Apply
          told={told}
          token={token}
          isBusy={isBusy}
          failure={failure}
          success={success}
          onToken={setToken}
          onReload={load}
          canPutBack={general.length > 0 || checked?.hasChanges === true}
        />
      </Card>
    </form>
  );
}

function NetworkRow({
  place,
  row,
  errors,
  told,
  hasOwn,
  onChange,
  onRemove,
  onUp,
}: {
  place: number;
  row: Typed;
  errors: FieldError[];
  told?: Row;
  hasOwn: boolean;
  onChange: (next: Typed) => void;
  onRemove: () => void;
  onUp: () => void;
}) {
  const at = (part: string) => `${part}-${place}`;
  const isWrong = (part: string) => errors.some((error) => error.field.includes(`].${part}`));
  const field = (part: "cidr" | "gateway" | "dns", label: string, name: string, hint: string) => (
    <Field
      id={at(part)}
      label={label}
      value={row[part]}
      hint={hint}
      isWrong={isWrong(name) || (part === "cidr" && !hasOwn && errors.length > 0)}
      describedBy={at("errors")}
      onInput={(text) => onChange({ ...row, [part]: text })}
    />
  );
  return (
    <fieldset data-row={place}>
      <legend>CIDR {place + 1}</legend>
      <div class="fields">
        {field("cidr", "CIDR", "cidr", "192.168.1.128/25")}
        {hasOwn && field("gateway", "Gateway", "gateway", "192.168.1.1")}
        {hasOwn && field("dns", "Name servers", "dnsServers", "192.168.1.1, 192.168.1.2")}
        <span class="buttons">
          {place > 0 && (
            <button type="button" id={at("up")} onClick={onUp}>
              Move up
            </button>
          )}
          <button type="button" id={at("remove")} onClick={onRemove}>
            Remove
          </button>
        </span>
      </div>
      <Errors id={at("errors")} errors={errors} />
      {told?.machines !== undefined && (
        <p id={at("fit")} class="quiet">
          {number(told.machines)} machines fit.
        </p>
      )}
      <Warnings warnings={told?.warnings ?? []} />
    </fieldset>
  );
}

export function Warnings({ warnings }: { warnings: string[] }) {
  return (
    <>
      {warnings.map((warning) => (
        <p key={warning} class="warning">
          <span aria-hidden="true">!</span> {warning}
        </p>
      ))}
    </>
  );
}
