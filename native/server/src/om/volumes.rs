//! Commands and reads of volumes.

use super::call::Call;
use super::failure::Failure;
use super::{Om, done, render, translate};
use append_namespace::command::{Command, CreateVolume, SetVolume, VolumeName};
use append_namespace::read;
use append_wire::om::{
    CheckVolumeAccessRequest, CheckVolumeAccessResponse, CreateVolumeRequest, CreateVolumeResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, InfoVolumeRequest, InfoVolumeResponse,
    ListVolumeRequest, ListVolumeResponse, OmResponse, SetVolumePropertyRequest,
    SetVolumePropertyResponse, list_volume_request::Scope,
};

/// Volumes in one listing at most, and when the caller names no number.
const MAX_LISTED: u32 = 1_000;

impl Om {
    pub(super) async fn create_volume(
        &self,
        call: &Call,
        request: CreateVolumeRequest,
    ) -> Result<OmResponse, Failure> {
        let info = request.volume_info;
        let command = Command::CreateVolume(CreateVolume {
            volume: info.volume,
            owner: translate::owner(Some(info.owner_name), &call.user),
            admin: translate::owner(Some(info.admin_name), &call.user),
            quota_bytes: translate::quota_bytes(info.quota_in_bytes),
            quota_names: translate::quota(info.quota_in_namespace),
            metadata: translate::pairs(info.metadata),
            acls: translate::acls(info.volume_acls),
        });
        self.propose(call, command).await?;
        Ok(OmResponse {
            create_volume_response: Some(Box::new(CreateVolumeResponse {})),
            ..done()
        })
    }

    pub(super) async fn set_volume(
        &self,
        call: &Call,
        request: SetVolumePropertyRequest,
    ) -> Result<OmResponse, Failure> {
        let name = request.volume_name;
        let before = self.read(|rows| read::volume(rows, &name)).await?;
        let changes_owner = request
            .owner_name
            .as_ref()
            .is_none_or(|owner| *owner != before.owner);
        let command = Command::SetVolume(SetVolume {
            volume: name,
            owner: request.owner_name,
            quota_bytes: request.quota_in_bytes.map(u64::cast_signed),
            quota_names: request.quota_in_namespace.map(u64::cast_signed),
        });
        self.propose(call, command).await?;
        let answer = SetVolumePropertyResponse {
            response: Some(changes_owner),
        };
        Ok(OmResponse {
            set_volume_property_response: Some(Box::new(answer)),
            ..done()
        })
    }

    /// Nobody is refused: access is not checked before callers are authenticated.
    pub(super) async fn check_volume(
        &self,
        request: &CheckVolumeAccessRequest,
    ) -> Result<OmResponse, Failure> {
        self.read(|rows| read::volume(rows, &request.volume_name))
            .await?;
        Ok(OmResponse {
            check_volume_access_response: Some(Box::new(CheckVolumeAccessResponse {})),
            ..done()
        })
    }

    pub(super) async fn info_volume(
        &self,
        request: &InfoVolumeRequest,
    ) -> Result<OmResponse, Failure> {
        let volume = self
            .read(|rows| read::volume(rows, &request.volume_name))
            .await?;
        let answer = InfoVolumeResponse {
            volume_info: Some(render::volume_info(&volume)),
        };
        Ok(OmResponse {
            info_volume_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn delete_volume(
        &self,
        call: &Call,
        request: DeleteVolumeRequest,
    ) -> Result<OmResponse, Failure> {
        let command = Command::DeleteVolume(VolumeName {
            volume: request.volume_name,
        });
        self.propose(call, command).await?;
        Ok(OmResponse {
            delete_volume_response: Some(Box::new(DeleteVolumeResponse {})),
            ..done()
        })
    }

    pub(super) async fn list_volumes(
        &self,
        call: &Call,
        request: ListVolumeRequest,
    ) -> Result<OmResponse, Failure> {
        let owner = match Scope::try_from(request.scope) {
            Ok(Scope::VolumesByCluster) => None,
            Ok(Scope::UserVolumes) => Some(call.user.clone()),
            Ok(Scope::VolumesByUser) => Some(translate::owner(request.user_name, &call.user)),
            Err(_) => return Err(Failure::invalid("unknown scope of a list of volumes")),
        };
        let max = match request.max_keys {
            None | Some(0) => MAX_LISTED,
            Some(asked) => asked.min(MAX_LISTED),
        };
        let prefix = request.prefix.unwrap_or_default();
        let after = request.prev_key.unwrap_or_default();
        let volumes = self
            .read_many(move |rows| {
                Ok(read::volumes(
                    rows,
                    owner.as_deref(),
                    &prefix,
                    &after,
                    max as usize,
                )??)
            })
            .await?;
        let answer = ListVolumeResponse {
            volume_info: volumes.iter().map(render::volume_info).collect(),
        };
        Ok(OmResponse {
            list_volume_response: Some(Box::new(answer)),
            ..done()
        })
    }
}
