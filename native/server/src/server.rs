//! One server put together: data folder, datanode, consensus, listeners; and taken apart again in the reverse order.
//!
//! ```text
//! DATA/om/       the consensus: log, rows, checkpoints
//! DATA/blocks/   the embedded datanode of a server that is alone
//! ```

mod deciding;

use crate::config::{ConfigError, Entry, Options};
use crate::consensus::{Consensus, GroupError, OpenError, ProposeError, is_data_folder};
use crate::engine::{BadAddress, BlockEngine, Embedded, Processes};
use crate::files;
use crate::http::{self, Asked, Grouping, Health, Regrouped, Shown, Taken};
use crate::om::{Advertised, Om, duties::Duties};
use crate::rpc::{Listener, Service, grpc_routes, serve_grpc_only};
use append_datanode::{Datanode, StoreOptions};
use append_namespace::command::{Command, Finalize, Holder, LAYOUT_APPEND, Limits, Request};
use append_namespace::reply::{Answer, Refusal};
use append_namespace::{RowsError, read};
use deciding::Deciding;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The consensus's folder in the data folder.
pub(crate) const OM_FOLDER: &str = "om";
/// The embedded datanode's.
pub(crate) const BLOCKS_FOLDER: &str = "blocks";
/// In whose name the server proposes its own duties.
const SERVER_USER: &str = "append-server";
/// Time that peers have, when the server stops, to take the answers of their calls.
const FAREWELL: Duration = Duration::from_secs(10);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data folder cannot be made.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The datanode's folder cannot be opened.
    #[error("the datanode: {0}")]
    Datanode(#[from] append_datanode::OpenError),
    /// The consensus's folder cannot be opened.
    #[error("the metadata: {0}")]
    Consensus(#[from] OpenError),
    /// The rows cannot be read.
    #[error("the metadata: {0}")]
    Rows(#[from] RowsError),
    /// A command of the server's own has no outcome.
    #[error("the metadata: {0}")]
    Propose(#[from] ProposeError),
    /// A command of the server's own was refused.
    #[error("{what}: {refusal}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// Why not.
        refusal: Refusal,
    },
    /// The folder is none of a server.
    #[error("{} is no data folder of a server", .0.display())]
    NoData(PathBuf),
    /// The group was not founded.
    #[error(
        "the group was not founded: {0}. --found is for empty folders; a server that belongs to a group is started without it"
    )]
    Found(GroupError),
    /// A datanode is listed by what is no address.
    #[error(transparent)]
    Datanodes(#[from] BadAddress),
    /// A task of the start was lost.
    #[error("the start was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// A server that serves. Dropping it stops the listeners; [`Running::shutdown`] does so in good order.
pub struct Running {
    rpc: SocketAddr,
    grpc: Option<SocketAddr>,
    http: Option<SocketAddr>,
    host: String,
    stop: CancellationToken,
    tasks: TaskTracker,
    deciding: Deciding,
}

/// The way to a [`Running`] server.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts a server in the current tokio runtime and returns when it serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub async fn start(options: Options) -> Result<Running, StartError> {
        options.check()?;
        http::start_counting();
        let listener = bind(options.listen).await?;
        let rpc = bound(&listener, options.listen)?;
        let grpc_listener = bind_optional(options.grpc_listen).await?;
        let http_listener = bind_optional(options.http_listen).await?;
        let grpc = grpc_listener.as_ref().map(|(_, address)| *address);
        let http = http_listener.as_ref().map(|(_, address)| *address);

        make_folder(&options.data)?;
        let host = options.host();
        let Opened { deciding, datanode } = open(&options, &host, rpc.port()).await?;
        let consensus = deciding.consensus();

        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        if matches!(deciding, Deciding::Alone(_)) {
            configure(&*consensus, &options).await?;
        }
        if let Deciding::Grouped(leader) = &deciding {
            if options.group.found {
                leader.found().await?;
            }
            tasks.spawn(Arc::clone(leader).make_ready(options.clone(), stop.clone()));
        }
        let engine: Arc<dyn BlockEngine> = match &datanode {
            Some(datanode) => {
                let number = register(&*consensus, datanode, &host, rpc.port()).await?;
                let engine = Arc::new(Embedded::new(number, datanode.uuid().to_string()));
                watch(&tasks, datanode, &engine, &options, &stop);
                engine
            }
            None => {
                let engine = Processes::new(&options.datanodes, Arc::clone(&consensus))?;
                engine.look().await;
                tasks.spawn(Arc::clone(&engine).run(stop.clone()));
                engine
            }
        };
        let advertised = Advertised {
            host: host.clone(),
            rpc_port: rpc.port(),
            http_port: http.map(|address| address.port()),
        };
        let om = Om::new(Arc::clone(&consensus), Arc::clone(&engine), advertised);
        let om: Arc<dyn Service> = Arc::new(match deciding.part() {
            Some((id, roster)) => om.in_group(id, roster),
            None => om,
        });
        tasks.spawn(Duties::default().run(consensus, stop.clone()));
        let mut routes = grpc_routes(Arc::clone(&om));
        if let Some(datanode) = &datanode {
            routes = routes.add_service(datanode.service());
        }
        if let Some((socket, _)) = grpc_listener {
            tasks.spawn(serve_grpc_only(
                socket,
                routes.clone(),
                options.rpc,
                stop.clone(),
            ));
        }
        if let Some((socket, _)) = http_listener {
            let shown = Arc::new(Pages {
                deciding: deciding.clone(),
                engine,
                options: options.clone(),
            });
            tasks.spawn(http::serve(socket, shown, stop.clone()));
        }
        let mut listener = Listener::new(listener, om, routes, options.rpc);
        if let Some(datanode) = &datanode {
            listener = listener.with_lines(datanode.lines());
        }
        tasks.spawn(listener.serve(stop.clone()));
        tasks.close();
        let datanode = datanode.map(|datanode| datanode.uuid().to_string());
        tracing::info!(%rpc, ?grpc, ?http, data = %options.data.display(), datanode, "serving");
        Ok(Running {
            rpc,
            grpc,
            http,
            host,
            stop,
            tasks,
            deciding,
        })
    }
}

impl Running {
    /// Where Hadoop RPC and gRPC are served.
    #[must_use]
    pub fn rpc_addr(&self) -> SocketAddr {
        self.rpc
    }

    /// Where gRPC alone is served.
    #[must_use]
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc
    }

    /// Where health, metrics and configuration are served.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The file system's URI, `ofs://HOST:PORT`.
    #[must_use]
    pub fn uri(&self) -> String {
        let host = &self.host;
        let port = self.rpc.port();
        if host.contains(':') {
            format!("ofs://[{host}]:{port}")
        } else {
            format!("ofs://{host}:{port}")
        }
    }

    /// Stops: lets another server of its group lead, takes no new call, answers those in flight, and persists the rows. Peers that do
    /// not take their answers are left after ten seconds.
    pub async fn shutdown(self) {
        self.deciding.hand_over().await;
        self.stop.cancel();
        if tokio::time::timeout(FAREWELL, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("connections are left behind");
        }
        let deciding = self.deciding.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || deciding.shutdown()).await {
            tracing::error!(%error, "the consensus did not stop in good order");
        }
    }

    /// Returns when the listeners have ended, which they do only when the server is stopped.
    pub async fn wait(&self) {
        self.tasks.wait().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| StartError::Bind { address, source })
}

fn bound(listener: &TcpListener, address: SocketAddr) -> Result<SocketAddr, StartError> {
    listener
        .local_addr()
        .map_err(|source| StartError::Bind { address, source })
}

async fn bind_optional(
    address: Option<SocketAddr>,
) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = bind(address).await?;
    let bound = bound(&listener, address)?;
    Ok(Some((listener, bound)))
}

/// Makes the folder of a server that is alone, and does not run, that of the first server of a group: with the number, the peers and the
/// address for clients of `options`. Blocks.
///
/// # Errors
/// [`StartError`]; the folder is as it was.
pub fn grow_folder(options: &Options) -> Result<(), StartError> {
    options.group.check().map_err(ConfigError::Group)?;
    let om = data_folder(options)?;
    let client = deciding::client(&options.host(), options.listen.port());
    let group = deciding::group_options(options, &client);
    Ok(crate::consensus::grow(&om, &options.consensus, &group)?)
}

/// Makes the folder of a server of a group, which does not run, that of a server that is alone; gives the new epoch when something may have
/// been lost. Blocks.
///
/// # Errors
/// [`StartError`]; the folder is as it was. Among them that something may be lost, when `accept_loss` is not said.
pub fn leave_folder(options: &Options, accept_loss: bool) -> Result<Option<u32>, StartError> {
    let om = data_folder(options)?;
    Ok(crate::consensus::leave(
        &om,
        &options.consensus,
        accept_loss,
    )?)
}

/// The consensus's folder, which must be there: looking at another one makes nothing in it.
fn data_folder(options: &Options) -> Result<PathBuf, StartError> {
    let om = options.data.join(OM_FOLDER);
    if is_data_folder(&om) {
        Ok(om)
    } else {
        Err(StartError::NoData(options.data.clone()))
    }
}

/// Makes the data folder, durably.
fn make_folder(data: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Folder {
        path: data.to_owned(),
        source,
    };
    files::create_dirs(data).map_err(failed)
}

/// What a data folder gives.
struct Opened {
    deciding: Deciding,
    /// Of a server that is alone.
    datanode: Option<Datanode>,
}

/// Opens the data folder of a server that clients reach at `host` and `port`.
async fn open(options: &Options, host: &str, port: u16) -> Result<Opened, StartError> {
    let options = options.clone();
    if options.group.is_set() {
        let address = options.group.listen().map_err(ConfigError::Group)?;
        let peers = std::net::TcpListener::bind(address)
            .map_err(|source| StartError::Bind { address, source })?;
        let client = deciding::client(host, port);
        return tokio::task::spawn_blocking(move || {
            let leader = Deciding::grouped(&options, &client, peers)?;
            warn_of_blocks(&options.data.join(BLOCKS_FOLDER));
            Ok(Opened {
                deciding: Deciding::Grouped(leader),
                datanode: None,
            })
        })
        .await?;
    }
    let store = StoreOptions {
        on_fatal: Some(Arc::clone(&options.consensus.on_fatal)),
        roll_bytes: options.container_bytes,
        ..StoreOptions::default()
    };
    tokio::task::spawn_blocking(move || {
        let deciding = Deciding::Alone(Deciding::alone(&options)?);
        let blocks = options.data.join(BLOCKS_FOLDER);
        let datanode = if options.datanodes.is_empty() {
            Some(Datanode::open(&blocks, store)?)
        } else {
            warn_of_blocks(&blocks);
            None
        };
        Ok(Opened { deciding, datanode })
    })
    .await?
}

/// What a datanode in the server's own process kept is served by nobody once blocks are placed on others.
fn warn_of_blocks(blocks: &Path) {
    if blocks.is_dir() {
        tracing::warn!(
            blocks = %blocks.display(),
            "these blocks are not served by this process: run `append datanode` on the folder and name it among the datanodes"
        );
    }
}

/// Gives a fresh folder the newest layout and its limits, and any folder those that the operator set. The layout of a folder that an older
/// version wrote is the operator's to finalize.
async fn configure(consensus: &dyn Consensus, options: &Options) -> Result<(), StartError> {
    // A leader may have gone between the two commands below, or before the answer.
    let fresh = consensus.position().command <= 1;
    let current = consensus.limits();
    let wanted = options
        .limits
        .over(if fresh { Limits::starting() } else { current });
    if fresh {
        let layout = Finalize {
            layout: LAYOUT_APPEND,
        };
        propose(consensus, Command::Finalize(layout), "the layout").await?;
    }
    if fresh || wanted != current {
        propose(consensus, Command::Configure(wanted), "the limits").await?;
    }
    Ok(())
}

/// Tells the rows where the datanode answers now: its number.
async fn register(
    consensus: &dyn Consensus,
    datanode: &Datanode,
    host: &str,
    port: u16,
) -> Result<u32, StartError> {
    let holder = Holder {
        number: 0,
        uuid: datanode.uuid().to_string(),
        host: host.to_owned(),
        port: u32::from(port),
    };
    let view = consensus.view();
    let known = read::holders(&*view)?.into_iter().find(|known| {
        *known
            == Holder {
                number: known.number,
                ..holder.clone()
            }
    });
    drop(view);
    if let Some(known) = known {
        return Ok(known.number);
    }
    match propose(consensus, Command::RegisterHolder(holder), "the datanode").await? {
        Some(Answer::HolderNumber(number)) => Ok(number),
        _ => Err(StartError::Refused {
            what: "the datanode",
            refusal: Refusal {
                detail: "no number was given".to_owned(),
                ..Refusal::default()
            },
        }),
    }
}

async fn propose(
    consensus: &dyn Consensus,
    command: Command,
    what: &'static str,
) -> Result<Option<Answer>, StartError> {
    let request = Request {
        user: SERVER_USER.to_owned(),
        invocation: None,
        answered_below: None,
        command: Some(command),
    };
    match consensus.propose(request).await? {
        Ok(reply) => Ok(reply.answer),
        Err(refusal) => Err(StartError::Refused { what, refusal }),
    }
}

/// Places no block on a datanode whose store has failed. The store itself has called `on_fatal` by then.
fn watch(
    tasks: &TaskTracker,
    datanode: &Datanode,
    engine: &Arc<Embedded>,
    options: &Options,
    stop: &CancellationToken,
) {
    let store = Arc::clone(datanode.store());
    let engine = Arc::clone(engine);
    let stop = stop.clone();
    let data = options.data.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            error = store.failed() => {
                engine.failed();
                tracing::error!(%error, data = %data.display(), "the datanode takes nothing more");
            }
        }
    });
}

/// What the HTTP pages show.
struct Pages {
    deciding: Deciding,
    engine: Arc<dyn BlockEngine>,
    options: Options,
}

impl Shown for Pages {
    fn health(&self) -> Asked {
        let deciding = self.deciding.clone();
        let live_datanodes = self.engine.live();
        Box::pin(async move {
            Health {
                serving: deciding.serves().await,
                live_datanodes,
            }
        })
    }

    fn configuration(&self) -> Vec<Entry> {
        self.options.effective(&self.deciding.consensus().limits())
    }

    fn checkpoint(&self) -> Taken {
        let deciding = self.deciding.clone();
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || deciding.checkpoint()).await {
                Ok(taken) => taken.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn group(&self, asked: Grouping) -> Regrouped {
        let deciding = self.deciding.clone();
        Box::pin(async move { deciding.group(asked).await })
    }
}
