//! Which server a call asks next, and how long it listens: the one that is said to lead, else each once, those that fell silent last.
//! Knows no request.

use std::time::{Duration, Instant};

use super::classify::Hint;
use super::server::Server;

/// A wait between two rounds while some server answers that none leads yet: a new leader is chosen within a few seconds.
const WHILE_CHOOSING: Duration = Duration::from_millis(300);

/// Rounds that are so close: an election takes no longer, and what takes longer is waited for with patience.
const CLOSE_ROUNDS: u32 = 40;

/// A server that fell silent is listened to for this part of the usual time, at first.
const PART_FOR_SILENT: u32 = 4;

/// The way of one call over the servers.
#[derive(Debug)]
pub(super) struct Round<'a> {
    servers: &'a [Server],
    /// How long one attempt is listened to. None: as long as the call takes.
    listen: Option<Duration>,
    at: usize,
    asked: Vec<bool>,
    /// How often each fell silent in this call.
    silences: Vec<u32>,
    /// A server of this round answered that it does not lead.
    choosing: bool,
    rounds: u32,
}

impl<'a> Round<'a> {
    /// Begins with `first`. With one server nothing is gained by asking it again early, and an attempt takes as long as the call.
    pub(super) fn new(servers: &'a [Server], first: usize, listen: Duration) -> Round<'a> {
        Round {
            servers,
            listen: (servers.len() > 1).then_some(listen),
            at: first,
            asked: vec![false; servers.len()],
            silences: vec![0; servers.len()],
            choosing: false,
            rounds: 0,
        }
    }

    /// The server to ask.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// How often all servers were asked.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Until when the next attempt is listened to, and no longer than `end`. A server that is silent once more gets more time, so that
    /// what takes long is answered in the end.
    pub(super) fn listen_until(&self, end: Instant) -> Instant {
        let Some(listen) = self.listen else {
            return end;
        };
        let silences = self.silences.get(self.at).copied().unwrap_or(0);
        let is_silent = self.servers.get(self.at).is_some_and(Server::is_silent);
        let limit = if is_silent || silences > 0 {
            (listen / PART_FOR_SILENT).saturating_mul(1 << silences.min(16))
        } else {
            listen
        };
        end.min(Instant::now() + limit)
    }

    /// The server said something.
    pub(super) fn heard(&self) {
        if let Some(server) = self.servers.get(self.at) {
            server.heard();
        }
    }

    /// The server said nothing for as long as it was listened to.
    pub(super) fn fell_silent(&mut self) {
        if self.listen.is_none() {
            return;
        }
        if let Some(silences) = self.silences.get_mut(self.at) {
            *silences = silences.saturating_add(1);
        }
        if let Some(server) = self.servers.get(self.at) {
            server.fell_silent();
        }
    }

    /// The server answered that it does not lead.
    pub(super) fn does_not_lead(&mut self) {
        self.choosing = true;
    }

    /// Turns to another server. `elsewhere` is the one that other calls use by now. True when all were asked: a pause is due.
    pub(super) fn turn(&mut self, hint: Option<&Hint>, elsewhere: usize) -> bool {
        if let Some(asked) = self.asked.get_mut(self.at) {
            *asked = true;
        }
        let from = self.at;
        let hinted = hint
            .and_then(|hint| self.named(hint))
            .filter(|at| *at != from && !self.is_silent(*at));
        if let Some(next) = self.unasked(hinted, elsewhere) {
            self.at = next;
            return false;
        }
        self.asked.fill(false);
        self.rounds = self.rounds.saturating_add(1);
        self.at = hinted.unwrap_or_else(|| {
            let around = || self.around(from);
            around().find(|at| !self.is_silent(*at)).unwrap_or(from)
        });
        true
    }

    /// The pause between two rounds, where `wait` would be usual.
    pub(super) fn pause(&mut self, wait: Duration) -> Duration {
        let choosing = std::mem::take(&mut self.choosing);
        if choosing && self.rounds <= CLOSE_ROUNDS {
            wait.min(WHILE_CHOOSING)
        } else {
            wait
        }
    }

    fn unasked(&self, hinted: Option<usize>, elsewhere: usize) -> Option<usize> {
        let fresh = |at: &usize| self.asked.get(*at) == Some(&false);
        hinted
            .filter(fresh)
            .or_else(|| Some(elsewhere).filter(|at| fresh(at) && !self.is_silent(*at)))
            .or_else(|| {
                self.around(self.at)
                    .find(|at| fresh(at) && !self.is_silent(*at))
            })
            .or_else(|| self.around(self.at).find(fresh))
    }

    /// All servers, from the one behind `from`.
    fn around(&self, from: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.servers.len();
        (1..=count).map(move |step| (from + step) % count)
    }

    fn is_silent(&self, at: usize) -> bool {
        self.servers.get(at).is_some_and(Server::is_silent)
    }

    /// The server that a hint means, by its name in the group or by its address.
    fn named(&self, hint: &Hint) -> Option<usize> {
        let by = |names: &dyn Fn(&Server) -> bool| self.servers.iter().position(names);
        by(&|server| !server.id().is_empty() && server.id() == hint.id)
            .or_else(|| by(&|server| hint.address.as_deref() == Some(&*server.address())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::address::Node;

    const LISTEN: Duration = Duration::from_secs(4);

    fn servers(count: u16) -> Vec<Server> {
        (1..=count)
            .map(|n| {
                Server::new(Node {
                    id: format!("om{n}"),
                    host: "h".to_owned(),
                    port: n,
                })
            })
            .collect()
    }

    fn hint(id: &str, address: Option<&str>) -> Hint {
        Hint {
            id: id.to_owned(),
            address: address.map(str::to_owned),
        }
    }

    #[test]
    fn each_server_is_asked_once_in_a_round() {
        let servers = servers(3);
        let mut round = Round::new(&servers, 1, LISTEN);
        assert!(!round.turn(None, 1));
        assert_eq!(round.at(), 2);
        assert!(!round.turn(None, 1));
        assert_eq!(round.at(), 0);
        assert!(round.turn(None, 1));
        assert_eq!((round.at(), round.rounds()), (1, 1));
    }

    #[test]
    fn a_hint_counts_if_it_names_a_server_that_is_known() {
        let servers = servers(4);
        let mut round = Round::new(&servers, 0, LISTEN);
        assert!(!round.turn(Some(&hint("om3", None)), 0));
        assert_eq!(round.at(), 2);
        assert!(!round.turn(Some(&hint("other", Some("h:4"))), 0));
        assert_eq!(round.at(), 3);
        // Nobody knows om9, and om1 was asked.
        assert!(!round.turn(Some(&hint("om9", Some("h:9"))), 0));
        assert_eq!(round.at(), 1);
        // The round is over: the pause ends at the one that is said to lead by now.
        assert!(round.turn(Some(&hint("om1", None)), 0));
        assert_eq!(round.at(), 0);
        // A server that names itself names nobody.
        assert!(!round.turn(Some(&hint("om1", None)), 0));
        assert_eq!(round.at(), 1);
    }

    #[test]
    fn a_silent_server_comes_last_and_gets_little_time_at_first() {
        let servers = servers(3);
        let mut round = Round::new(&servers, 0, LISTEN);
        let end = Instant::now() + Duration::from_secs(3600);
        let limit = |round: &Round<'_>| {
            round
                .listen_until(end)
                .saturating_duration_since(Instant::now())
                .as_millis()
                .div_ceil(100)
        };
        assert_eq!(limit(&round), 40);
        round.fell_silent();
        assert!(!round.turn(None, 0));
        assert_eq!((round.at(), limit(&round)), (1, 40));
        round.does_not_lead();
        assert!(!round.turn(Some(&hint("om1", None)), 1));
        assert_eq!(round.at(), 2, "a hint to the silent one is not followed");
        assert!(round.turn(None, 2));
        assert_eq!(round.at(), 1);
        assert_eq!(round.pause(Duration::from_secs(2)), WHILE_CHOOSING);
        assert!(!round.turn(None, 1));
        assert!(!round.turn(None, 2));
        assert_eq!((round.at(), limit(&round)), (0, 20));
        round.fell_silent();
        assert_eq!(limit(&round), 40);
        assert!(round.turn(None, 2));
        assert_eq!(round.at(), 1);
        assert_eq!(
            round.pause(Duration::from_secs(2)),
            Duration::from_secs(2),
            "nobody answered in that round"
        );
        // Another call is short with it, too, until it is heard.
        let other = Round::new(&servers, 0, LISTEN);
        assert_eq!(limit(&other), 10);
        other.heard();
        assert_eq!(limit(&other), 40);
    }

    #[test]
    fn one_server_is_listened_to_until_the_end() {
        let servers = servers(1);
        let mut round = Round::new(&servers, 0, LISTEN);
        let end = Instant::now() + Duration::from_secs(3600);
        assert_eq!(round.listen_until(end), end);
        round.fell_silent();
        assert_eq!(round.listen_until(end), end);
        assert!(round.turn(Some(&hint("om2", None)), 0));
        assert_eq!(round.at(), 0);
    }
}
