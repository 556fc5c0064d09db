use std::time::Duration;

use anyhow::Result;
use berth_api::Count;
use berth_inspect::status::{self, MachineRow, NodeRow, PodRow, RouteRow, SubnetRow};
use berth_inspect::{Facts, gather};
use berth_kit::args::CommonArgs;
use kube::Client;

use super::output::{Format, OutputArgs, Table, print};

/// The time between two reads with `-w`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// At most this many pods and machines, to fit a screen: those that wait come first.
const MAX_ROWS: usize = 20;

/// Say what is where: subnets, nodes, pods that wait, machines, routes
#[derive(Debug, clap::Args)]
pub struct Status {
    /// Only this part
    #[arg(value_enum)]
    part: Option<Part>,
    #[command(flatten)]
    output: OutputArgs,
    /// Print it again whenever it has changed
    #[arg(short, long, env = "BERTH_WATCH")]
    watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Subnets,
    Nodes,
    Pods,
    Machines,
    Routes,
}

impl Status {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = common.cluster.client().await?;
            let mut last = self.fetch(&client).await?;
            self.print(&last)?;
            if !self.watch {
                return Ok(());
            }
            loop {
                tokio::time::sleep(WATCH_INTERVAL).await;
                let next = self.fetch(&client).await?;
                if next != last {
                    println!();
                    self.print(&next)?;
                    last = next;
                }
            }
        })
    }

    async fn fetch(&self, client: &Client) -> Result<status::Status> {
        let facts: Facts = gather(client).await?;
        Ok(status::status(&facts))
    }

    fn print(&self, status: &status::Status) -> Result<()> {
        let format = self.output.output;
        let wide = format == Format::Wide;
        match self.part {
            None => print(format, status, || all(status, wide)),
            Some(Part::Subnets) => {
                print(format, &status.subnets, || subnets(&status.subnets).to_string())
            }
            Some(Part::Nodes) => {
                print(format, &status.nodes, || nodes(&status.nodes, wide).to_string())
            }
            Some(Part::Pods) => print(format, &status.pods, || pods(&status.pods).to_string()),
            Some(Part::Machines) => {
                print(format, &status.machines, || machines(&status.machines).to_string())
            }
            Some(Part::Routes) => {
                print(format, &status.routes, || routes(&status.routes).to_string())
            }
        }
    }
}

fn all(status: &status::Status, wide: bool) -> String {
    let mut parts = Vec::new();
    let unrouted = status.routes.iter().filter(|row| row.state == "NoRoute");
    let unrouted: Vec<RouteRow> = unrouted.take(MAX_ROWS).cloned().collect();
    let tables = [
        ("", subnets(&status.subnets)),
        ("", nodes(&status.nodes, wide)),
        ("pods that wait", waiting(&status.pods)),
        ("machines", machines(&status.machines)),
        ("nodes without a route", routes(&unrouted)),
    ];
    for (title, table) in tables {
        if !table.is_empty() {
            let title = if title.is_empty() {
                String::new()
            } else {
                format!("{title}:\n")
            };
            parts.push(format!("{title}{table}"));
        }
    }
    let running = status.pods.iter().filter(|pod| pod.state == "Running").count();
    parts.push(format!("{running} of {} pods run.\n", status.pods.len()));
    parts.join("\n")
}

fn text(count: Option<Count>) -> String {
    count.map(|count| count.0.to_string()).unwrap_or_default()
}

fn subnets(rows: &[SubnetRow]) -> Table {
    let head = [
        "SUBNET", "USE", "CIDRS", "CAPACITY", "RESERVED", "COOLING", "FREE", "FIT", "STATE",
    ];
    let mut table = Table::new(&head);
    for row in rows {
        table.add([
            row.name.clone(),
            row.r#use.clone(),
            row.cidrs.join(","),
            text(row.capacity),
            text(row.reserved),
            text(row.cooling_down),
            text(row.free),
            text(row.pods_that_fit),
            row.state.clone(),
        ]);
    }
    table
}

fn nodes(rows: &[NodeRow], wide: bool) -> Table {
    if wide {
        let head = ["NODE", "SUBNET", "PODCIDRS", "HAS", "ASKS", "PODS", "WAITING", "STATE"];
        let mut table = Table::new(&head);
        for row in rows {
            table.add([
                row.name.clone(),
                row.subnet.clone(),
                row.pod_cidrs.join(","),
                row.has.to_string(),
                row.requested.to_string(),
                row.pods.to_string(),
                row.waiting.to_string(),
                row.state.clone(),
            ]);
        }
        return table;
    }
    let mut table = Table::new(&["NODE", "SUBNET", "HAS", "PODS", "WAITING", "STATE"]);
    for row in rows {
        table.add([
            row.name.clone(),
            row.subnet.clone(),
            row.has.to_string(),
            row.pods.to_string(),
            row.waiting.to_string(),
            row.state.clone(),
        ]);
    }
    table
}

fn pods(rows: &[PodRow]) -> Table {
    let mut table = Table::new(&["NAMESPACE", "POD", "NODE", "ADDRESSES", "STATE"]);
    for row in rows {
        table.add([
            row.namespace.clone(),
            row.name.clone(),
            row.node.clone(),
            row.addresses.join(","),
            row.state.clone(),
        ]);
    }
    table
}

fn waiting(rows: &[PodRow]) -> Table {
    let waits = |row: &&PodRow| matches!(row.state.as_str(), "WaitingForAddress" | "Unschedulable");
    let rows: Vec<PodRow> = rows.iter().filter(waits).take(MAX_ROWS).cloned().collect();
    pods(&rows)
}

fn machines(rows: &[MachineRow]) -> Table {
    let mut table = Table::new(&["NAMESPACE", "MACHINE", "ADDRESSES", "STEP"]);
    for row in rows {
        table.add([
            row.namespace.clone(),
            row.name.clone(),
            row.addresses.join(","),
            row.state.clone(),
        ]);
    }
    table
}

fn routes(rows: &[RouteRow]) -> Table {
    let mut table = Table::new(&["NODE", "PODCIDRS", "NEXT-HOP", "STATE", "MESSAGE"]);
    for row in rows {
        table.add([
            row.node.clone(),
            row.pod_cidrs.join(","),
            row.next_hops.join(","),
            row.state.clone(),
            row.message.clone(),
        ]);
    }
    table
}
