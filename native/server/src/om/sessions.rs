//! Append sessions: admission, renewal, and the list of what is open.

use super::call::Call;
use super::failure::Failure;
use super::files::MAX_GIVEN;
use super::status::renewal_code;
use super::{Om, done, render, translate, unexpected};
use append_namespace::command::{AppendFile, Command, CreateMode, KeyPath, RenewLeases};
use append_namespace::reply::{Admitted, Answer, Renewal as Renewed};
use append_namespace::{RefusalKind, read};
use append_wire::om::append_file_request::CreateMode as AskedMode;
use append_wire::om::renew_append_leases_response::Renewal;
use append_wire::om::{
    AppendCode, AppendFileRequest, AppendFileResponse, KeyInfo, ListOpenFilesRequest,
    ListOpenFilesResponse, OmResponse, RenewAppendLeasesRequest, RenewAppendLeasesResponse, Status,
};

/// Open files in one listing at most, and when the caller names no number.
const MAX_OPEN_FILES: u32 = 1_000;

impl Om {
    pub(super) async fn append_file(
        &self,
        call: &Call,
        request: AppendFileRequest,
    ) -> Result<OmResponse, Failure> {
        let create = match request.create.map(AskedMode::try_from) {
            None | Some(Ok(AskedMode::No)) => CreateMode::No,
            Some(Ok(AskedMode::IfMissing)) => CreateMode::IfMissing,
            Some(Ok(AskedMode::MustBeNew)) => CreateMode::MustBeNew,
            Some(Ok(AskedMode::Overwrite)) => CreateMode::Overwrite,
            Some(Err(_)) => return Err(Failure::invalid("unknown create mode of an append")),
        };
        let (preallocate, exclude) = (request.preallocate(), request.exclude_datanodes);
        let args = request.key_args;
        translate::refuse_unbuilt(&args)?;
        if args.expected_data_generation.is_some() || !args.tags.is_empty() {
            return Err(Failure::unsupported(
                "an append takes neither tags nor an expected generation",
            ));
        }
        let path = translate::writable(&args)?;
        let blocks = u64::from(preallocate).min(MAX_GIVEN);
        let holders = self.holders(blocks, &exclude, &call.subject).await?;
        let command = Command::AppendFile(AppendFile {
            path: path.clone(),
            create: create.into(),
            recursive: request.is_recursive.unwrap_or_default(),
            holders,
            replication: translate::replication(args.r#type, &self.engine.replication())?,
            owner: translate::owner(args.owner_name, &call.user),
            metadata: translate::pairs(args.metadata),
            acls: translate::acls(args.acls),
            lease_owner: call.client.clone(),
        });
        let admitted = match self.propose(call, command).await {
            Ok(Some(Answer::Admitted(admitted))) => admitted,
            Ok(other) => return Err(unexpected(other.as_ref())),
            Err(failure) => {
                metrics::counter!("append_om_admissions_total", "outcome" => "refused")
                    .increment(1);
                tracing::info!(%path, request = %call.request_id, ?failure, "an append was refused");
                return Err(failure);
            }
        };
        metrics::counter!("append_om_admissions_total", "outcome" => "admitted").increment(1);
        tracing::info!(
            session = admitted.handle.session,
            file = admitted.handle.file,
            created = admitted.created,
            ordinary = admitted.ordinary,
            request = %call.request_id,
            "admitted"
        );
        let answer = self.admission(&path, &admitted)?;
        Ok(OmResponse {
            append_file_response: Some(Box::new(answer)),
            ..done()
        })
    }

    fn admission(
        &self,
        path: &KeyPath,
        admitted: &Admitted,
    ) -> Result<AppendFileResponse, Failure> {
        let view = self.consensus.view();
        // A repeated answer may be of a session that has ended since: then there is no file to describe.
        let described = if admitted.ordinary {
            None
        } else {
            read::session_file(&*view, &admitted.handle)?.ok()
        };
        let key_info = match described {
            Some(file) => render::file_info(&file, None),
            None => {
                let kept = self.engine.replication();
                KeyInfo {
                    data_size: admitted.published_length,
                    r#type: kept.kind,
                    factor: Some(kept.factor),
                    is_file: Some(true),
                    ..render::named(path)
                }
            }
        };
        drop(view);
        Ok(AppendFileResponse {
            key_info: Some(key_info),
            handle: Some(render::append_handle(&admitted.handle)),
            prefix_length: Some(admitted.prefix_length),
            prefix_block_count: Some(render::saturated(admitted.prefix_blocks)),
            published_length: Some(admitted.published_length),
            suffix: self.given(&admitted.blocks)?,
            created: Some(admitted.created),
            soft_limit_ms: Some(admitted.soft_limit_ms),
            ordinary: Some(admitted.ordinary),
        })
    }

    pub(super) async fn renew_leases(
        &self,
        call: &Call,
        request: RenewAppendLeasesRequest,
    ) -> Result<OmResponse, Failure> {
        let sessions = request
            .sessions
            .iter()
            .map(translate::handle)
            .collect::<Result<Vec<_>, _>>()?;
        match self
            .propose(call, Command::RenewLeases(RenewLeases { sessions }))
            .await?
        {
            Some(Answer::Renewed(renewed)) => {
                let results = renewed.results.iter().map(renewal).collect();
                let answer = RenewAppendLeasesResponse { results };
                Ok(OmResponse {
                    renew_append_leases_response: Some(Box::new(answer)),
                    ..done()
                })
            }
            other => Err(unexpected(other.as_ref())),
        }
    }

    pub(super) async fn list_open_files(
        &self,
        request: ListOpenFilesRequest,
    ) -> Result<OmResponse, Failure> {
        let bucket = scope(request.path.as_deref().unwrap_or_default())?;
        let token = from_hex(request.token.as_deref().unwrap_or_default())
            .ok_or_else(|| Failure::invalid("the token is not one that this server gave"))?;
        let max = match request.count {
            None | Some(0) => MAX_OPEN_FILES,
            Some(asked) => asked.min(MAX_OPEN_FILES),
        };
        let (open, next, total) = self
            .read_many(move |rows| {
                let bucket = bucket
                    .as_ref()
                    .map(|(volume, bucket)| (volume.as_str(), bucket.as_str()));
                Ok(read::open_files(rows, bucket, &token, max as usize)??)
            })
            .await?;
        let answer = ListOpenFilesResponse {
            total_open_key_count: Some(total),
            has_more: Some(next.is_some()),
            continuation_token: next.as_deref().map(to_hex),
            client_id: open.iter().map(|open| open.session).collect(),
            key_info: open.iter().map(render::open_file_info).collect(),
            append_status: open
                .iter()
                .map(|open| render::append_status(&open.status))
                .collect(),
        };
        Ok(OmResponse {
            list_open_files_response: Some(Box::new(answer)),
            ..done()
        })
    }
}

fn renewal(renewed: &Renewed) -> Renewal {
    let code = match renewed.refused {
        None => AppendCode::Ok,
        Some(refused) => {
            renewal_code(RefusalKind::try_from(refused).unwrap_or(RefusalKind::Unknown))
        }
    };
    Renewal {
        handle: Some(render::append_handle(&renewed.handle)),
        code: Some(code.into()),
        last_renewed_at: Some(renewed.last_renewed_ms),
        renewals: Some(renewed.renewals),
    }
}

/// The bucket whose open files are asked for; nothing for all. Ozone takes these two only.
fn scope(path: &str) -> Result<Option<(String, String)>, Failure> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [] => Ok(None),
        [volume, bucket] => Ok(Some(((*volume).to_owned(), (*bucket).to_owned()))),
        _ => Err(Failure::Other {
            status: Status::InvalidPath,
            code: None,
            detail: format!("open files are listed for / or for a bucket, not for {path}"),
        }),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .filter_map(|nibble| char::from_digit(u32::from(nibble), 16))
        .collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    Some(pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_went() {
        let token = [0, 1, 0x7f, 0x80, 0xff];
        assert_eq!(from_hex(&to_hex(&token)).as_deref(), Some(&token[..]));
        assert_eq!(from_hex(""), Some(Vec::new()));
        assert_eq!(from_hex("0"), None);
        assert_eq!(from_hex("zz"), None);
    }

    #[test]
    fn open_files_are_of_everything_or_of_a_bucket() {
        for all in ["", "/"] {
            assert_eq!(scope(all).unwrap(), None);
        }
        for bucket in ["/v/b", "v/b/"] {
            assert_eq!(
                scope(bucket).unwrap(),
                Some(("v".to_owned(), "b".to_owned()))
            );
        }
        for other in ["/v", "/v/b/k"] {
            assert!(scope(other).is_err());
        }
    }

    #[test]
    fn a_refused_renewal_says_why() {
        let renewed = |refused: Option<RefusalKind>| Renewed {
            refused: refused.map(Into::into),
            ..Renewed::default()
        };
        assert_eq!(renewal(&renewed(None)).code(), AppendCode::Ok);
        assert_eq!(
            renewal(&renewed(Some(RefusalKind::Fenced))).code(),
            AppendCode::Fenced
        );
        let mut unheard = renewed(None);
        unheard.refused = Some(9_999);
        assert_eq!(renewal(&unheard).code(), AppendCode::SessionUnknown);
    }
}
