//! Datanodes that are processes of their own, by a static list: each is asked twice a second or so who it is, and one that answered when it
//! was last asked takes new blocks. Each block is kept once.
//!
//! A datanode is known by the identity in its folder, never by its address: a row of the rules says where it answers, a datanode that moved
//! is written anew there, and one that answers where another is registered is not used.

use super::{BlockEngine, NoHolder};
use crate::consensus::Consensus;
use append_namespace::command::{Command, Holder, Replication, Request};
use append_namespace::read;
use append_namespace::reply::Answer;
use append_namespace::rows::{Rows, RowsError};
use append_wire::datanode::xceiver_client_protocol_service_client::XceiverClientProtocolServiceClient;
use append_wire::datanode::{ContainerCommandRequestProto, EchoRequestProto, Result as Code, Type};
use append_wire::hdds::{ReplicationFactor, ReplicationType};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use uuid::Uuid;

/// From one look at all datanodes to the next.
const INTERVAL: Duration = Duration::from_millis(500);

/// A datanode that does not answer for so long does not live.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time that a registration may take. One that comes later counts as well.
const REGISTRATION: Duration = Duration::from_secs(3);

/// In whose name datanodes are registered.
const USER: &str = "append-server";

/// An address that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the HOST:PORT of a datanode")]
pub struct BadAddress(String);

/// The listed datanodes. Nothing is asked before [`Processes::look`].
pub struct Processes {
    nodes: Vec<Node>,
    consensus: Arc<dyn Consensus>,
}

struct Node {
    /// As it was listed.
    address: String,
    host: String,
    port: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    standing: Standing,
}

type Client = XceiverClientProtocolServiceClient<Channel>;

/// How a datanode stood when it was last asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Unknown,
    /// It answered, and the rows know it by its number.
    Lives { number: u32, uuid: String },
    /// It did not answer.
    Silent(String),
    /// It answered and may not be used.
    Refused(String),
}

impl Processes {
    /// Datanodes at `addresses`, `HOST:PORT` each, which are also told to clients; registered through `consensus`.
    ///
    /// # Errors
    /// [`BadAddress`].
    pub fn new(
        addresses: &[String],
        consensus: Arc<dyn Consensus>,
    ) -> Result<Arc<Processes>, BadAddress> {
        let nodes = addresses
            .iter()
            .map(|address| Node::new(address))
            .collect::<Result<_, _>>()?;
        Ok(Arc::new(Processes { nodes, consensus }))
    }

    /// Looks at the datanodes again and again until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let round = async {
                tokio::time::sleep(INTERVAL).await;
                self.look().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = round => {}
            }
        }
    }

    /// Asks each datanode once who it is, and registers those that the rows do not know where they are; in a group only the leader can.
    pub async fn look(&self) {
        let mut asked = JoinSet::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let (address, client) = (node.address.clone(), node.state().client.take());
            asked.spawn(async move { (at, ask(&address, client).await) });
        }
        let mut answers: Vec<Option<Result<(Uuid, Client), String>>> =
            self.nodes.iter().map(|_| None).collect();
        while let Some(answered) = asked.join_next().await {
            if let Ok((at, answer)) = answered
                && let Some(place) = answers.get_mut(at)
            {
                *place = Some(answer);
            }
        }
        let mut met: Vec<(String, &str)> = Vec::new();
        let (mut uuids, mut failures) = (Vec::new(), Vec::new());
        for (node, answer) in self.nodes.iter().zip(answers) {
            match answer {
                Some(Ok((uuid, client))) => {
                    node.state().client = Some(client);
                    uuids.push((node, uuid.to_string()));
                }
                Some(Err(why)) => failures.push((node, why)),
                None => failures.push((node, "the probe was lost".to_owned())),
            }
        }
        for (node, why) in failures {
            node.stands(Standing::Silent(why));
        }
        for (node, uuid) in &uuids {
            let standing = match met.iter().find(|(known, _)| known == uuid) {
                Some((_, other)) => Standing::Refused(format!(
                    "it calls itself {uuid}, as the one at {other} does: a copy of a datanode's folder is no datanode"
                )),
                None => self.place(node, uuid, &uuids).await,
            };
            met.push((uuid.clone(), &node.address));
            node.stands(standing);
        }
        let live = u32::try_from(self.live()).unwrap_or(u32::MAX);
        metrics::gauge!("append_datanodes_live").set(f64::from(live));
    }

    /// Where a datanode that answered stands in the rows, written there if need be.
    async fn place(&self, node: &Node, uuid: &str, met: &[(&Node, String)]) -> Standing {
        let holders = match read::holders(&*self.consensus.view()) {
            Ok(holders) => holders,
            Err(error) => return Standing::Silent(error.to_string()),
        };
        let here = |holder: &&Holder| holder.host == node.host && holder.port == node.port;
        let known = holders.iter().find(|holder| holder.uuid == uuid);
        if let Some(known) = known.filter(here) {
            return Standing::Lives {
                number: known.number,
                uuid: uuid.to_owned(),
            };
        }
        // One that moved away leaves its address to others.
        let moved = |holder: &&Holder| !met.iter().any(|(_, other)| *other == holder.uuid);
        if let Some(other) = holders.iter().filter(here).find(moved) {
            return Standing::Refused(format!(
                "datanode {uuid} answers where {} is registered: start it on that one's folder, or give this one an address of its own",
                other.uuid
            ));
        }
        let request = Request {
            user: USER.to_owned(),
            invocation: None,
            answered_below: None,
            command: Some(Command::RegisterHolder(Holder {
                number: 0,
                uuid: uuid.to_owned(),
                host: node.host.clone(),
                port: node.port,
            })),
        };
        match tokio::time::timeout(REGISTRATION, self.consensus.propose(request)).await {
            Ok(Ok(Ok(reply))) => match reply.answer {
                Some(Answer::HolderNumber(number)) => Standing::Lives {
                    number,
                    uuid: uuid.to_owned(),
                },
                _ => Standing::Silent("it was given no number".to_owned()),
            },
            Ok(Ok(Err(refusal))) => Standing::Refused(refusal.to_string()),
            // The one that leads registers it; its row tells this server.
            Ok(Err(_)) | Err(_) => Standing::Silent("it is not registered yet".to_owned()),
        }
    }
}

impl Node {
    fn new(address: &str) -> Result<Node, BadAddress> {
        let bad = || BadAddress(address.to_owned());
        let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
        let port: u16 = port.parse().map_err(|_| bad())?;
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = inner.unwrap_or(host);
        if host.is_empty() || port == 0 || Endpoint::from_shared(uri(address)).is_err() {
            return Err(bad());
        }
        Ok(Node {
            address: address.to_owned(),
            host: host.to_owned(),
            port: u32::from(port),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of how it stands, and says so when that changed.
    fn stands(&self, standing: Standing) {
        let mut state = self.state();
        let same = std::mem::discriminant(&state.standing) == std::mem::discriminant(&standing);
        if !same || (state.standing != standing && !matches!(standing, Standing::Silent(_))) {
            let datanode = &self.address;
            match &standing {
                Standing::Unknown => {}
                Standing::Lives { number, uuid } => {
                    tracing::info!(%datanode, number, %uuid, "a datanode answers");
                }
                Standing::Silent(why) => {
                    tracing::warn!(%datanode, why, "a datanode does not answer: it takes no blocks");
                }
                Standing::Refused(why) => {
                    tracing::error!(%datanode, why, "a datanode is not used");
                }
            }
        }
        state.standing = standing;
    }

    /// Its number and identity, if it takes blocks.
    fn lives(&self) -> Option<(u32, String)> {
        match &self.state().standing {
            Standing::Lives { number, uuid } => Some((*number, uuid.clone())),
            _ => None,
        }
    }
}

fn uri(address: &str) -> String {
    format!("http://{address}")
}

/// Asks a datanode who it is, over a connection that answered before or a new one.
async fn ask(address: &str, client: Option<Client>) -> Result<(Uuid, Client), String> {
    let work = async {
        let mut client = match client {
            Some(client) => client,
            None => {
                let channel = Endpoint::from_shared(uri(address))
                    .map_err(|error| error.to_string())?
                    .connect()
                    .await
                    .map_err(|error| cause(&error))?;
                XceiverClientProtocolServiceClient::new(channel)
            }
        };
        let request = ContainerCommandRequestProto {
            cmd_type: Type::Echo.into(),
            echo: Some(Box::new(EchoRequestProto::default())),
            ..ContainerCommandRequestProto::default()
        };
        let answer = client
            .send(tokio_stream::once(request))
            .await
            .map_err(|status| status.message().to_owned())?
            .into_inner()
            .message()
            .await
            .map_err(|status| status.message().to_owned())?
            .ok_or("it gave no answer")?;
        if answer.result() != Code::Success {
            return Err(answer.message.unwrap_or_default());
        }
        let uuid = answer.echo.and_then(|echo| echo.datanode_uuid);
        let uuid =
            Uuid::parse_str(&uuid.unwrap_or_default()).map_err(|_| "it does not say who it is")?;
        Ok((uuid, client))
    };
    tokio::time::timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")))
}

/// An error of the transport says what happened only in its last source.
fn cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

impl BlockEngine for Processes {
    /// Blocks of one place go to one datanode while that takes them, so that small appends to a file are read back in runs; other places
    /// go to others.
    fn pick(&self, count: usize, exclude: &[String], place: &str) -> Result<Vec<u32>, NoHolder> {
        let chosen = self
            .nodes
            .iter()
            .filter_map(Node::lives)
            .filter(|(_, uuid)| !exclude.iter().any(|other| uuid.eq_ignore_ascii_case(other)))
            .max_by_key(|(_, uuid)| {
                let mut hasher = DefaultHasher::new();
                (place, uuid).hash(&mut hasher);
                hasher.finish()
            });
        match chosen {
            Some((number, _)) => Ok(vec![number; count]),
            None => Err(NoHolder {
                registered: self.nodes.len(),
            }),
        }
    }

    fn live(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.lives().is_some())
            .count()
    }

    fn replication(&self) -> Replication {
        Replication {
            kind: ReplicationType::StandAlone.into(),
            factor: ReplicationFactor::One.into(),
        }
    }

    fn locate(&self, rows: &dyn Rows, holder: u32) -> Result<Option<Holder>, RowsError> {
        read::holder(rows, holder)
    }
}

#[cfg(test)]
mod tests;
