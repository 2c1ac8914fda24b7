//! Listing: volumes, buckets, and the entries of directories, page by page.

use append_wire::om::{ListStatusRequest, OmResponse, Type};

use super::{FileSystem, key_args, without};
use crate::Result;
use crate::error::ErrorKind;
use crate::om::Effect;
use crate::path::FsPath;
use crate::status::{FileStatus, ListPage, from_wire};

/// From this OM version on statuses come in their light form.
const LIGHT_SINCE: i32 = 8;

impl FileSystem {
    /// One page of a directory's entries after the name `start_after` (empty: from the first), at most `max` (0: by
    /// configuration). A file is its own only entry.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn list_page(&self, path: &str, start_after: &str, max: u32) -> Result<ListPage> {
        let path = self.resolve(path)?;
        self.list_page_at(&path, start_after, max)
            .await
            .map_err(|error| error.at("list", &path))
    }

    pub(crate) async fn list_page_at(
        &self,
        path: &FsPath,
        start_after: &str,
        max: u32,
    ) -> Result<ListPage> {
        let max = if max == 0 {
            self.shared().settings.list_page
        } else {
            max
        };
        if path.is_root() {
            let volumes = self.volumes(start_after, max).await?;
            let more = full(volumes.len(), max);
            let entries = volumes.into_iter().map(|volume| FileStatus {
                modified_ms: volume.modified_ms,
                accessed_ms: volume.modified_ms,
                owner: volume.owner,
                object_id: volume.object_id,
                ..from_wire::bare_directory(path.child(&volume.name))
            });
            return Ok(ListPage {
                entries: entries.collect(),
                more,
            });
        }
        if path.is_volume() {
            let buckets = self.buckets(path.volume(), start_after, max).await?;
            let more = full(buckets.len(), max);
            let entries = buckets.into_iter().map(|bucket| FileStatus {
                modified_ms: bucket.modified_ms,
                accessed_ms: bucket.modified_ms,
                owner: bucket.owner,
                object_id: bucket.object_id,
                ..from_wire::bare_directory(path.child(&bucket.name))
            });
            return Ok(ListPage {
                entries: entries.collect(),
                more,
            });
        }
        self.list_keys_page(path, start_after, max).await
    }

    async fn list_keys_page(&self, path: &FsPath, start_after: &str, max: u32) -> Result<ListPage> {
        let light = self.om().features().om_version >= LIGHT_SINCE;
        let start_key = match start_after {
            "" => String::new(),
            name => path.child(name).key().to_owned(),
        };
        // The start comes back with its page.
        let asked = if start_key.is_empty() {
            max
        } else {
            max.saturating_add(1)
        };
        let mut request = self.om().request(if light {
            Type::ListStatusLight
        } else {
            Type::ListStatus
        });
        request.list_status_request = Some(Box::new(ListStatusRequest {
            key_args: key_args(path),
            recursive: false,
            start_key: start_key.clone(),
            num_entries: u64::from(asked),
            allow_partial_prefix: None,
        }));
        let response = match self.om().call(request, Effect::Read).await {
            // A path below a file: nothing is there.
            Err(error) if error.kind() == ErrorKind::IsDirectory => {
                return Err(error.with_kind(ErrorKind::NotFound));
            }
            other => other?,
        };
        let found = entries(path, response, light)?;
        let more = full(found.len(), asked);
        let entries = found
            .into_iter()
            .filter(|entry| start_key.is_empty() || entry.path.key() != start_key)
            .collect();
        Ok(ListPage { entries, more })
    }

    /// All entries of a directory.
    ///
    /// # Errors
    /// As [`FileSystem::list_page`].
    pub async fn list(&self, path: &str) -> Result<Vec<FileStatus>> {
        let path = self.resolve(path)?;
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page = self
                .list_page_at(&path, &after, 0)
                .await
                .map_err(|error| error.at("list", &path))?;
            let last = page.entries.last().map(|last| last.name().to_owned());
            all.extend(page.entries);
            match last {
                Some(last) if page.more => after = last,
                _ => return Ok(all),
            }
        }
    }
}

fn full(found: usize, asked: u32) -> bool {
    usize::try_from(asked).is_ok_and(|asked| found >= asked)
}

fn entries(folder: &FsPath, response: OmResponse, light: bool) -> Result<Vec<FileStatus>> {
    let at = |key: &str| {
        let key = key.trim_end_matches('/');
        FsPath::in_bucket(folder.volume(), folder.bucket(), key)
    };
    if light {
        let list = response
            .list_status_light_response
            .ok_or_else(|| without("list"))?;
        let each = list.statuses.iter().map(|status| {
            let name = status.basic_key_info.as_ref();
            let key = name.map(|info| info.key_name()).unwrap_or_default();
            from_wire::light_status(status, at(key))
        });
        return Ok(each.collect());
    }
    let list = response
        .list_status_response
        .ok_or_else(|| without("list"))?;
    let each = list.statuses.iter().map(|status| {
        let key = status.key_info.as_ref().map(|info| info.key_name.as_str());
        from_wire::file_status(status, at(key.unwrap_or_default()))
    });
    Ok(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_wire::om::{BasicKeyInfo, ListStatusLightResponse, OzoneFileStatusProtoLight};

    #[test]
    fn keys_become_paths_of_the_folders_bucket() {
        let entry = |key: &str, directory| OzoneFileStatusProtoLight {
            basic_key_info: Some(BasicKeyInfo {
                key_name: Some(key.to_owned()),
                data_size: Some(5),
                ..BasicKeyInfo::default()
            }),
            is_directory: Some(directory),
            block_size: Some(64),
            ..OzoneFileStatusProtoLight::default()
        };
        let response = OmResponse {
            list_status_light_response: Some(Box::new(ListStatusLightResponse {
                statuses: vec![entry("d/a", false), entry("d/b/", true)],
            })),
            ..OmResponse::default()
        };
        let folder = FsPath::parse("/v/b/d").unwrap();
        let found = entries(&folder, response, true).unwrap();
        assert_eq!(found[0].path.to_string(), "/v/b/d/a");
        assert_eq!(
            (found[0].length, found[0].replication, found[0].block_size),
            (5, 1, 64)
        );
        assert_eq!(found[1].path.to_string(), "/v/b/d/b");
        assert_eq!(
            (found[1].length, found[1].replication, found[1].directory),
            (0, 0, true)
        );
        let error = entries(&folder, OmResponse::default(), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
    }

    #[test]
    fn a_page_that_is_full_may_have_a_successor() {
        assert!(full(10, 10));
        assert!(!full(9, 10));
    }
}
