//! Commands on the tree: directories, renames, deletions, times.

use super::call::Call;
use super::failure::Failure;
use super::status::{Told, told};
use super::{Om, done, translate, unexpected};
use append_namespace::command::{
    Command, CreateDirectory, Delete, DeleteKeys, KeyPath, KeyRename, Rename, RenameKeys, SetTimes,
};
use append_namespace::reply::{Answer, RefusedKey};
use append_wire::om::{
    CreateDirectoryRequest, CreateDirectoryResponse, DeleteKeyArgs, DeleteKeyError,
    DeleteKeyRequest, DeleteKeyResponse, DeleteKeysRequest, DeleteKeysResponse, OmResponse,
    RenameKeyRequest, RenameKeyResponse, RenameKeysMap, RenameKeysRequest, RenameKeysResponse,
    SetTimesRequest, SetTimesResponse, Status,
};

impl Om {
    pub(super) async fn create_directory(
        &self,
        call: &Call,
        request: CreateDirectoryRequest,
    ) -> Result<OmResponse, Failure> {
        let args = request.key_args;
        let command = Command::CreateDirectory(CreateDirectory {
            path: translate::writable(&args)?,
            owner: translate::owner(args.owner_name, &call.user),
            metadata: translate::pairs(args.metadata),
            acls: translate::acls(args.acls),
        });
        let existed = match self.propose(call, command).await? {
            Some(Answer::DirectoryExisted(existed)) => existed,
            other => return Err(unexpected(other.as_ref())),
        };
        let mut response = OmResponse {
            create_directory_response: Some(Box::new(CreateDirectoryResponse {})),
            ..done()
        };
        if existed {
            // Ozone's way: a status of its own, and still a success.
            response.status = Status::DirectoryAlreadyExists.into();
        }
        Ok(response)
    }

    pub(super) async fn rename_key(
        &self,
        call: &Call,
        request: RenameKeyRequest,
    ) -> Result<OmResponse, Failure> {
        let from = translate::writable(&request.key_args)?;
        translate::read_only_if_snapshot(&KeyPath {
            key: request.to_key_name.clone(),
            ..from.clone()
        })?;
        let command = Command::Rename(Rename {
            from,
            to: request.to_key_name,
            expected_update: request.update_id,
        });
        self.propose(call, command).await?;
        Ok(OmResponse {
            rename_key_response: Some(Box::new(RenameKeyResponse {})),
            ..done()
        })
    }

    pub(super) async fn rename_keys(
        &self,
        call: &Call,
        request: RenameKeysRequest,
    ) -> Result<OmResponse, Failure> {
        let args = request.rename_keys_args;
        let bucket = translate::bucket_name(&args.volume_name, &args.bucket_name);
        let mut renames = Vec::with_capacity(args.rename_keys_map.len());
        for pair in args.rename_keys_map {
            for key in [&pair.from_key_name, &pair.to_key_name] {
                translate::read_only_if_snapshot(&KeyPath {
                    volume: bucket.volume.clone(),
                    bucket: bucket.bucket.clone(),
                    key: key.clone(),
                })?;
            }
            renames.push(KeyRename {
                from: pair.from_key_name,
                to: pair.to_key_name,
            });
        }
        let command = Command::RenameKeys(RenameKeys { bucket, renames });
        let refused = match self.propose(call, command).await? {
            Some(Answer::RenamedKeys(renamed)) => renamed.refused,
            other => return Err(unexpected(other.as_ref())),
        };
        let mut response = done();
        let all = refused.is_empty();
        if let Some(first) = refused.first() {
            response.success = Some(false);
            response.status = Status::PartialRename.into();
            response.message = Some(format!(
                "{} keys were not renamed, the first because {}",
                refused.len(),
                first.refusal.detail
            ));
        }
        response.rename_keys_response = Some(Box::new(RenameKeysResponse {
            un_renamed_keys: refused
                .into_iter()
                .map(|refused| RenameKeysMap {
                    from_key_name: refused.from,
                    to_key_name: refused.to,
                })
                .collect(),
            status: Some(all),
        }));
        Ok(response)
    }

    pub(super) async fn delete_key(
        &self,
        call: &Call,
        request: DeleteKeyRequest,
    ) -> Result<OmResponse, Failure> {
        let created_by = request
            .append_handle
            .as_ref()
            .map(translate::handle)
            .transpose()?;
        let command = Command::Delete(Delete {
            path: translate::writable(&request.key_args)?,
            recursive: request.key_args.recursive(),
            created_by,
        });
        self.propose(call, command).await?;
        let answer = DeleteKeyResponse::default();
        Ok(OmResponse {
            delete_key_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn delete_keys(
        &self,
        call: &Call,
        request: DeleteKeysRequest,
    ) -> Result<OmResponse, Failure> {
        let args = request
            .delete_keys
            .ok_or_else(|| Failure::invalid("the request names no keys"))?;
        if !args.update_i_ds.is_empty() {
            return Err(Failure::unsupported(
                "conditional deletion of several keys is not supported",
            ));
        }
        let bucket = translate::bucket_name(&args.volume_name, &args.bucket_name);
        for key in &args.keys {
            translate::read_only_if_snapshot(&KeyPath {
                volume: bucket.volume.clone(),
                bucket: bucket.bucket.clone(),
                key: key.clone(),
            })?;
        }
        let command = Command::DeleteKeys(DeleteKeys {
            bucket,
            keys: args.keys,
        });
        let refused = match self.propose(call, command).await? {
            Some(Answer::DeletedKeys(deleted)) => deleted.refused,
            other => return Err(unexpected(other.as_ref())),
        };
        let mut response = done();
        let all = refused.is_empty();
        if !all {
            response.success = Some(false);
            response.status = Status::PartialDelete.into();
            response.message = refused.first().map(|first| {
                format!(
                    "{} keys were not deleted, the first because {}",
                    refused.len(),
                    first.refusal.detail
                )
            });
        }
        response.delete_keys_response = Some(Box::new(DeleteKeysResponse {
            un_deleted_keys: Some(DeleteKeyArgs {
                volume_name: args.volume_name,
                bucket_name: args.bucket_name,
                keys: refused.iter().map(|refused| refused.key.clone()).collect(),
                update_i_ds: Vec::new(),
            }),
            status: Some(all),
            errors: refused.into_iter().map(key_error).collect(),
        }));
        Ok(response)
    }

    pub(super) async fn set_times(
        &self,
        call: &Call,
        request: SetTimesRequest,
    ) -> Result<OmResponse, Failure> {
        let command = Command::SetTimes(SetTimes {
            path: translate::writable(&request.key_args)?,
            modified_ms: request.mtime.cast_signed(),
        });
        self.propose(call, command).await?;
        Ok(OmResponse {
            set_times_response: Some(Box::new(SetTimesResponse {})),
            ..done()
        })
    }
}

fn key_error(refused: RefusedKey) -> DeleteKeyError {
    let status = match told(refused.refusal.kind()) {
        Told::Answer(status, _) => status,
        Told::ComeAgain => Status::Timeout,
    };
    DeleteKeyError {
        key: Some(refused.key),
        error_code: Some(status.as_str_name().to_owned()),
        error_msg: Some(refused.refusal.detail),
    }
}
