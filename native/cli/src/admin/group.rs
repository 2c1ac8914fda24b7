//! The servers of a group: who they are, who leads, who comes and goes; and the way from one server to a group and back.

use std::net::SocketAddr;
use std::path::PathBuf;

use append_client::{Error, ErrorKind};
use append_server::Options;
use append_server::config::keys;
use append_server::server::{grow_folder, leave_folder};
use clap::Args;
use serde::Deserialize;

use super::ask::HttpArgs;
use super::show;
use crate::listen;

#[derive(Debug, Args)]
pub(crate) struct MembersArgs {
    #[command(flatten)]
    server: HttpArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    server: HttpArgs,
    /// Number of the server that it is about
    id: u64,
}

#[derive(Debug, Args)]
pub(crate) struct AdmitArgs {
    #[command(flatten)]
    server: HttpArgs,
    /// Where the new server listens for the others, as in its own --peers
    #[arg(value_name = "HOST:PORT")]
    peer: String,
}

#[derive(Debug, Args)]
pub(crate) struct GrowArgs {
    /// Data folder of the server that is alone; it must not run
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Its number in the group
    #[arg(long, value_name = "N")]
    id: u64,
    /// As `append serve --peers` gets it; its own entry is what the others are told
    #[arg(long, value_name = "1=HOST:PORT,2=HOST:PORT,...")]
    peers: String,
    /// Where clients reach it: the --listen of its `append serve`
    #[arg(long, value_name = "HOST:PORT", value_parser = listen::address)]
    listen: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct LeaveArgs {
    /// Data folder of the server that goes on alone; it must not run
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Go on although other servers may have decided more than this one knows: that is lost, and they may never be started again
    #[arg(long)]
    accept_loss: bool,
}

#[derive(Debug, Deserialize)]
struct Members {
    members: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    id: u64,
    peer: String,
    client: String,
    votes: bool,
    leads: bool,
    reached: Option<u64>,
}

fn shown(answer: &str, as_json: bool) -> Result<(), Error> {
    if as_json {
        return show::line(answer);
    }
    let Members { members } = serde_json::from_str(answer)
        .map_err(|error| Error::new(ErrorKind::Io, format!("the server's answer: {error}")))?;
    let rows: Vec<Vec<String>> = members
        .into_iter()
        .map(|member| {
            let role = match (member.leads, member.votes) {
                (true, _) => "leader",
                (false, true) => "follower",
                (false, false) => "learner",
            };
            vec![
                member.id.to_string(),
                role.to_owned(),
                member.peer,
                member.client,
                member
                    .reached
                    .map_or_else(|| "-".to_owned(), |reached| reached.to_string()),
            ]
        })
        .collect();
    show::table(&["ID", "ROLE", "PEER", "CLIENT", "LOG"], &rows)
}

/// `append admin members`.
///
/// # Errors
/// As [`HttpArgs::ask`].
pub(crate) async fn members(args: MembersArgs) -> Result<(), Error> {
    let answer = args.server.ask("GET", "/admin/members").await?;
    shown(&answer, args.json)
}

/// `append admin transfer`: returns when the other server leads.
///
/// # Errors
/// As [`HttpArgs::ask`].
pub(crate) async fn transfer(args: ServerArgs) -> Result<(), Error> {
    let path = format!("/admin/transfer?id={}", args.id);
    shown(&args.server.ask("POST", &path).await?, false)
}

/// `append admin dismiss`.
///
/// # Errors
/// As [`HttpArgs::ask`].
pub(crate) async fn dismiss(args: ServerArgs) -> Result<(), Error> {
    let path = format!("/admin/dismiss?id={}", args.id);
    shown(&args.server.ask("POST", &path).await?, false)
}

/// `append admin admit`: returns when the new server has caught up and has a vote.
///
/// # Errors
/// As [`HttpArgs::ask`].
pub(crate) async fn admit(args: AdmitArgs) -> Result<(), Error> {
    if args.peer.contains(|letter: char| {
        !(letter.is_ascii_alphanumeric() || matches!(letter, '.' | ':' | '-' | '_' | '[' | ']'))
    }) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{:?} is not HOST:PORT", args.peer),
        ));
    }
    let path = format!("/admin/admit?peer={}", args.peer);
    shown(&args.server.ask("POST", &path).await?, false)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, error.to_string())
}

/// `append admin grow`.
///
/// # Errors
/// [`ErrorKind::Io`] with what is wrong; the folder is as it was.
pub(crate) fn grow(args: GrowArgs) -> Result<(), Error> {
    let mut options = Options::new(args.data);
    options.listen = args.listen;
    options
        .set(keys::SERVER_ID, &args.id.to_string())
        .map_err(failed)?;
    options.set(keys::PEERS, &args.peers).map_err(failed)?;
    grow_folder(&options).map_err(failed)?;
    show::line(&format!(
        "server {} is the first of a group: start it with --id {} --peers {}, the others on empty folders, and admit each",
        args.id, args.id, args.peers
    ))
}

/// `append admin leave`.
///
/// # Errors
/// [`ErrorKind::Io`] with what is wrong; the folder is as it was.
pub(crate) fn leave(args: LeaveArgs) -> Result<(), Error> {
    let left = leave_folder(&Options::new(args.data), args.accept_loss).map_err(failed)?;
    show::line(&match left {
        None => "the server is alone: start it without --id and --peers".to_owned(),
        Some(epoch) => format!(
            "the server is alone, in epoch {epoch}: start it without --id and --peers, and never start the others again"
        ),
    })
}
