//! `--demo`: something to watch. It plays one act after the other, as people would with kubectl,
//! and then starts again. An act ends, with a line on stdout, when its effect is visible in the
//! API.

mod hands;

use std::io::Write;
use std::time::Duration;

use berth_cluster::Fleet;
use berth_kit::clock::Clock;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use hands::Hands;

/// Small, so that it runs out.
pub const CIDR: &str = "10.64.0.0/26";
/// Small, so that the nodes' spare addresses leave something free.
pub const BATCH_SIZE: i64 = 4;
/// Short, so that it recovers while one watches.
pub const REUSE_DELAY: &str = "5s";

/// An act that takes longer is skipped.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Pods of `web` at the beginning and at the end.
const FEW: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Act {
    Deploy,
    Grow,
    Fill,
    Recover,
    LoseNode,
    RegainNode,
    MakeMachines,
    RemoveMachines,
    Shrink,
}

const ACTS: [Act; 9] = [
    Act::Deploy,
    Act::Grow,
    Act::Fill,
    Act::Recover,
    Act::LoseNode,
    Act::RegainNode,
    Act::MakeMachines,
    Act::RemoveMachines,
    Act::Shrink,
];

pub struct Demo {
    hands: Hands,
    fleet: Fleet,
    /// The time between two acts.
    interval: Duration,
}

impl Demo {
    pub fn new(client: Client, fleet: Fleet, interval: Duration) -> Self {
        Self {
            hands: Hands::new(client),
            fleet,
            interval,
        }
    }

    pub async fn run(self, stopping: CancellationToken) {
        let playing = async {
            loop {
                for act in ACTS {
                    let played = tokio::time::timeout(TIMEOUT, self.play(act)).await;
                    let too_long = || anyhow::anyhow!("it took {} s", TIMEOUT.as_secs());
                    match played.unwrap_or_else(|_| Err(too_long())) {
                        Ok(line) => print_line(&line),
                        // People may change things, too: an object that an act needs may be gone.
                        Err(error) => {
                            warn!(?act, %error, "demo step failed; continuing with the next one");
                        }
                    }
                    tokio::time::sleep(self.interval).await;
                }
            }
        };
        stopping.run_until_cancelled(playing).await;
    }

    async fn play(&self, act: Act) -> anyhow::Result<String> {
        let hands = &self.hands;
        match act {
            Act::Deploy => {
                hands.begin().await?;
                hands.scale("web", FEW).await?;
                hands.until_running("web", FEW).await?;
                Ok(format!("web runs with {FEW} pods"))
            }
            Act::Grow => {
                let many = hands.capacity().await? / 2;
                hands.scale("web", many).await?;
                hands.until_running("web", many).await?;
                Ok(format!("web has grown to {many} pods"))
            }
            Act::Fill => {
                let capacity = hands.capacity().await?;
                hands.scale("batch", capacity).await?;
                let waiting = hands.until_full().await?;
                Ok(format!(
                    "the Subnet is full, and {waiting} pods of batch wait for an address"
                ))
            }
            Act::Recover => {
                hands.remove("batch").await?;
                let free = hands.until_not_full().await?;
                Ok(format!("batch is gone, and {free} addresses are free again"))
            }
            Act::LoseNode => {
                let node = self.last_node()?;
                hands.drain(&node).await?;
                Ok(format!("node {node} is drained and gone; its pods run elsewhere"))
            }
            Act::RegainNode => {
                let node = self.last_node()?;
                berth_cluster::register_nodes(&hands.client, self.fleet, Clock::System).await?;
                hands.until_has_addresses(&node).await?;
                Ok(format!("node {node} is back, and has addresses"))
            }
            Act::MakeMachines => {
                let count = hands.make_machines().await?;
                Ok(format!("{count} machines have their network and are provisioned"))
            }
            Act::RemoveMachines => {
                hands.remove_machines().await?;
                Ok("the machines are gone, and their addresses are cooling down".to_owned())
            }
            Act::Shrink => {
                hands.scale("web", FEW).await?;
                hands.until_running("web", FEW).await?;
                Ok(format!("web has shrunk to {FEW} pods; all begins again"))
            }
        }
    }

    fn last_node(&self) -> anyhow::Result<String> {
        anyhow::ensure!(self.fleet.size() > 1, "with --nodes 1 no node can go");
        self.fleet
            .names()
            .last()
            .ok_or_else(|| anyhow::anyhow!("there is no node"))
    }
}

fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // A closed stdout is no reason to stop.
    drop(writeln!(out, "Demo:        {line}").and_then(|()| out.flush()));
}
