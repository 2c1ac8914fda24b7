//! Recovery of leases, as Ozone's RecoverLease with what appending adds, and finalization of the layout.

use super::call::Call;
use super::failure::Failure;
use super::locate::Locator;
use super::{Om, done, render, translate, unexpected};
use append_namespace::command::{
    Command, Finalize, KeyPath, LAYOUT_APPEND, MAX_RECOVERED, StartRecovery,
};
use append_namespace::reply::{Answer, Fenced};
use append_namespace::rows::Rows;
use append_namespace::view::RecoveryView;
use append_namespace::{RefusalKind, read};
use append_wire::hdds::UpgradeFinalizationStatus;
use append_wire::hdds::upgrade_finalization_status::Status as Finalization;
use append_wire::om::{
    FinalizeUpgradeProgressResponse, FinalizeUpgradeResponse, KeyInfo, OmResponse,
    RecoverLeaseRequest, RecoverLeaseResponse,
};

impl Om {
    /// Fences the writer of a file and tells what is to be settled at which datanodes.
    pub(super) async fn recover_lease(
        &self,
        call: &Call,
        request: RecoverLeaseRequest,
    ) -> Result<OmResponse, Failure> {
        let path = KeyPath {
            volume: request.volume_name().to_owned(),
            bucket: request.bucket_name().to_owned(),
            key: request.key_name().to_owned(),
        };
        translate::read_only_if_snapshot(&path)?;
        let force = request.force();
        let command = Command::StartRecovery(StartRecovery {
            path: path.clone(),
            append_only: request.append_only(),
            force,
        });
        let fenced = match self.propose(call, command).await {
            Ok(Some(Answer::Fenced(fenced))) => fenced,
            Ok(other) => return Err(unexpected(other.as_ref())),
            Err(failure) => {
                metrics::counter!("append_om_recoveries_total", "outcome" => "refused")
                    .increment(1);
                tracing::info!(%path, request = %call.request_id, ?failure, "a recovery was not started");
                return Err(failure);
            }
        };
        let outcome = if fenced.joined { "joined" } else { "started" };
        metrics::counter!("append_om_recoveries_total", "outcome" => outcome).increment(1);
        tracing::info!(
            session = fenced.handle.session,
            file = fenced.handle.file,
            append = fenced.append,
            request = %call.request_id,
            outcome,
            "fenced"
        );
        let view = self.consensus.view();
        let told_at_most = usize::try_from(MAX_RECOVERED).unwrap_or(usize::MAX);
        let found = read::recovery(&*view, &fenced.handle, told_at_most)?;
        // Somebody else has finished it since, or the file is gone.
        let found = found.map_err(|refusal| match refusal.kind() {
            RefusalKind::Fenced | RefusalKind::SessionUnknown => Failure::refused(
                RefusalKind::AlreadyClosed,
                format!("{path}: the recovery is complete"),
            ),
            _ => Failure::Refused(refusal),
        })?;
        if found.left_out > 0 {
            if !force {
                // Only of a writer that an older version let hold so many. It must not lose them because nobody said so.
                return Err(Failure::refused(
                    RefusalKind::TooManyBlocks,
                    format!(
                        "{path}: its writer holds {} blocks more than an answer tells; only a forced recovery goes on without them",
                        found.left_out
                    ),
                ));
            }
            tracing::warn!(
                session = fenced.handle.session,
                left_out = found.left_out,
                "a forced recovery goes on without blocks that are too many for an answer"
            );
        }
        let status = read::append_status(&*view, &found.file.path)?
            .ok()
            .flatten();
        let answer = RecoverLeaseResponse {
            key_info: Some(self.committed(&*view, &fenced, &found)?),
            open_key_info: Some(self.to_settle(&*view, &found)?),
            append_handle: Some(render::append_handle(&fenced.handle)),
            append_status: status.as_ref().map(render::append_status),
            ..RecoverLeaseResponse::default()
        };
        drop(view);
        Ok(OmResponse {
            recover_lease_response: Some(Box::new(answer)),
            ..done()
        })
    }

    /// The file as it is published: whoever recovers an append session needs no list, Ozone's clients need all of it.
    fn committed(
        &self,
        rows: &dyn Rows,
        fenced: &Fenced,
        found: &RecoveryView,
    ) -> Result<KeyInfo, Failure> {
        if fenced.append {
            return Ok(render::file_info(&found.file, None));
        }
        let range = read::blocks(rows, &found.file, 0, usize::MAX)??;
        let blocks = Locator::new(&*self.engine, rows).shown(&range.blocks, false)?;
        Ok(render::file_info(&found.file, Some(blocks)))
    }

    fn to_settle(&self, rows: &dyn Rows, found: &RecoveryView) -> Result<KeyInfo, Failure> {
        let blocks = Locator::new(&*self.engine, rows).suffix(&found.blocks)?;
        Ok(render::file_info(&found.file, Some(blocks)))
    }

    pub(super) async fn finalize(&self, call: &Call) -> Result<OmResponse, Failure> {
        let status = if self.read(|rows| Ok(Ok(read::layout(rows)?))).await? >= LAYOUT_APPEND {
            Finalization::AlreadyFinalized
        } else {
            let command = Command::Finalize(Finalize {
                layout: LAYOUT_APPEND,
            });
            self.propose(call, command).await?;
            tracing::info!(layout = LAYOUT_APPEND, request = %call.request_id, "finalized");
            Finalization::FinalizationDone
        };
        let answer = FinalizeUpgradeResponse {
            status: told(status),
        };
        Ok(OmResponse {
            finalize_upgrade_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn finalization(&self) -> Result<OmResponse, Failure> {
        let status = if self.read(|rows| Ok(Ok(read::layout(rows)?))).await? >= LAYOUT_APPEND {
            Finalization::FinalizationDone
        } else {
            Finalization::FinalizationRequired
        };
        let answer = FinalizeUpgradeProgressResponse {
            status: told(status),
        };
        Ok(OmResponse {
            finalize_upgrade_progress_response: Some(Box::new(answer)),
            ..done()
        })
    }
}

fn told(status: Finalization) -> UpgradeFinalizationStatus {
    UpgradeFinalizationStatus {
        status: status.into(),
        messages: Vec::new(),
    }
}
