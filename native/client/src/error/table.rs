//! The one table from a server's answer to [`ErrorKind`] and from there to errno.
//!
//! JNI, the C ABI and the shell map kinds only; no other place looks at a status of the wire. The tests walk every value of the
//! wire's enums.

use append_wire::om::{AppendCode, Status};

use super::{ErrorKind, Retry};

/// The kind that an OM status stands for. `NOT_A_FILE` is said of a directory in the way and of a file among the parents
/// alike: the caller looks which it is.
#[must_use]
pub fn of_status(status: Status) -> ErrorKind {
    use ErrorKind as K;
    use Status as S;
    match status {
        S::VolumeNotFound
        | S::BucketNotFound
        | S::KeyNotFound
        | S::FileNotFound
        | S::PrefixNotFound
        | S::NoSuchMultipartUploadError
        | S::S3SecretNotFound
        | S::TenantNotFound
        | S::AccessIdNotFound
        | S::UserNotFound
        | S::LifecycleConfigurationNotFound
        | S::BucketEncryptionKeyNotFound => K::NotFound,
        S::DirectoryNotFound => K::ParentNotFound,
        S::VolumeNotUnique
        | S::VolumeAlreadyExists
        | S::BucketAlreadyExists
        | S::KeyAlreadyExists
        | S::FileAlreadyExists
        | S::DirectoryAlreadyExists
        | S::TenantAlreadyExists
        | S::TenantUserAccessIdAlreadyExists
        | S::S3SecretAlreadyExists => K::AlreadyExists,
        S::NotAFile => K::IsDirectory,
        S::VolumeNotEmpty
        | S::BucketNotEmpty
        | S::DirectoryNotEmpty
        | S::TenantNotEmpty
        | S::VolumeIsReferenced
        | S::ContainsSnapshot => K::DirectoryNotEmpty,
        S::AccessDenied
        | S::PermissionDenied
        | S::Unauthorized
        | S::UserMismatch
        | S::InvalidToken
        | S::TokenExpired
        | S::TokenErrorOther
        | S::InvalidAuthMethod
        | S::TokenCreationError
        | S::TenantAuthorizerError => K::PermissionDenied,
        S::InvalidKeyName
        | S::InvalidBucketName
        | S::InvalidVolumeName
        | S::InvalidPath
        | S::InvalidRequest
        | S::InvalidPathInAclRequest
        | S::CannotCreateDirectoryAtRoot
        | S::InvalidPart
        | S::InvalidPartOrder
        | S::EntityTooSmall
        | S::MismatchMultipartList
        | S::MissingUploadParts
        | S::UnknownCipherSuite
        | S::InvalidKmsProvider
        | S::InvalidTenantId
        | S::InvalidTenantUsername
        | S::InvalidAccessId
        | S::DetectedLoopInBucketLinks
        | S::KeyRenameError => K::InvalidArgument,
        S::NotSupportedOperation | S::RenameOpenFile => K::Unsupported,
        S::FeatureNotEnabled
        | S::NotSupportedOperationPriorFinalization
        | S::NotSupportedOperationWhenPrepared => K::Disabled,
        S::QuotaExceeded
        | S::QuotaError
        | S::UserTooManyVolumes
        | S::TooManyBuckets
        | S::TooManySnapshots => K::QuotaExceeded,
        S::KeyUnderLeaseRecovery => K::Recovering,
        S::KeyUnderLeaseSoftLimitPeriod => K::Conflict,
        S::KeyAlreadyClosed => K::StaleSession,
        S::Timeout => K::OutcomeUnknown,
        S::EtagMismatch | S::EtagNotAvailable | S::AtomicWriteConflict | S::UpdateIdNotMatch => {
            K::ConditionFailed
        }
        S::ScmInSafeMode | S::OmNotInitialized | S::ScmGetPipelineException => K::Unavailable,
        S::KeyAllocationError => K::NoSpace,
        S::Ok
        | S::InternalError
        | S::KeyDeletionError
        | S::MetadataError
        | S::ScmVersionMismatchError
        | S::InitiateMultipartUploadError
        | S::MultipartUploadPartfileError
        | S::CompleteMultipartUploadError
        | S::AbortMultipartUploadFailed
        | S::ListMultipartUploadPartsFailed
        | S::RatisError
        | S::PartialDelete
        | S::PartialRename
        | S::PersistUpgradeToLayoutVersionFailed
        | S::RemoveUpgradeToLayoutVersionFailed
        | S::UpdateLayoutVersionFailed
        | S::LayoutFeatureFinalizationFailed
        | S::PrepareFailed
        | S::InvalidSnapshotError
        | S::SslConnectionFailure => K::Io,
    }
}

/// The kind that a code of appending stands for; it is more exact than the status beside it. None: the status decides.
#[must_use]
pub fn of_code(code: AppendCode) -> Option<ErrorKind> {
    use AppendCode as C;
    use ErrorKind as K;
    Some(match code {
        C::Ok => return None,
        C::ConflictAppend | C::ConflictOrdinary | C::ConflictHsync | C::NotEligible => K::Conflict,
        C::Recovering => K::Recovering,
        C::Fenced | C::SessionUnknown | C::IdentityMismatch => K::StaleSession,
        C::Invalidated | C::Unreachable => K::NotFound,
        C::Unsupported => K::Unsupported,
        C::Disabled => K::Disabled,
        C::BadPublication => K::Protocol,
        C::Uncertain => K::OutcomeUnknown,
        C::GenerationGone => K::NotFound,
        C::TooManyBlocks => K::Unsupported,
        C::RetryLater => K::Unavailable,
    })
}

/// Every kind, for the tables that callers in other languages keep: their tests walk it.
pub const KINDS: [ErrorKind; 26] = [
    ErrorKind::NotFound,
    ErrorKind::ParentNotFound,
    ErrorKind::AlreadyExists,
    ErrorKind::IsDirectory,
    ErrorKind::NotADirectory,
    ErrorKind::DirectoryNotEmpty,
    ErrorKind::PermissionDenied,
    ErrorKind::ReadOnly,
    ErrorKind::Conflict,
    ErrorKind::Recovering,
    ErrorKind::StaleSession,
    ErrorKind::OutcomeUnknown,
    ErrorKind::Unsupported,
    ErrorKind::Disabled,
    ErrorKind::QuotaExceeded,
    ErrorKind::Checksum,
    ErrorKind::Timeout,
    ErrorKind::Cancelled,
    ErrorKind::Connect,
    ErrorKind::InvalidArgument,
    ErrorKind::Closed,
    ErrorKind::NoSpace,
    ErrorKind::ConditionFailed,
    ErrorKind::Unavailable,
    ErrorKind::Protocol,
    ErrorKind::Io,
];

/// The errno of a kind.
#[must_use]
pub fn errno(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound | ErrorKind::ParentNotFound => libc::ENOENT,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::IsDirectory => libc::EISDIR,
        ErrorKind::NotADirectory => libc::ENOTDIR,
        ErrorKind::DirectoryNotEmpty => libc::ENOTEMPTY,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::ReadOnly => libc::EROFS,
        ErrorKind::Conflict | ErrorKind::Recovering => libc::EBUSY,
        ErrorKind::StaleSession => libc::ESTALE,
        ErrorKind::OutcomeUnknown => libc::ENOTRECOVERABLE,
        ErrorKind::Unsupported | ErrorKind::Disabled => libc::ENOTSUP,
        ErrorKind::QuotaExceeded => libc::EDQUOT,
        ErrorKind::Checksum => libc::EBADMSG,
        ErrorKind::Timeout => libc::ETIMEDOUT,
        ErrorKind::Cancelled => libc::EINTR,
        ErrorKind::Connect => libc::ECONNREFUSED,
        ErrorKind::InvalidArgument => libc::EINVAL,
        ErrorKind::Closed => libc::EBADF,
        ErrorKind::NoSpace => libc::ENOSPC,
        ErrorKind::ConditionFailed => libc::ECANCELED,
        ErrorKind::Unavailable => libc::EAGAIN,
        ErrorKind::Protocol => libc::EPROTO,
        ErrorKind::Io => libc::EIO,
    }
}

/// What a caller may do when the error itself says nothing more exact.
#[must_use]
pub fn retry(kind: ErrorKind) -> Retry {
    match kind {
        ErrorKind::Conflict
        | ErrorKind::Recovering
        | ErrorKind::Timeout
        | ErrorKind::Cancelled
        | ErrorKind::Connect
        | ErrorKind::Unavailable
        | ErrorKind::NoSpace => Retry::Now,
        ErrorKind::OutcomeUnknown => Retry::LookFirst,
        _ => Retry::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind as K;

    /// Numbers of Ozone's statuses that do not exist.
    const GAPS: [i32; 3] = [22, 23, 51];

    #[test]
    fn every_status_of_the_wire_has_a_kind_and_an_errno() {
        let mut seen = 0;
        for number in -1..=2999 {
            let Ok(status) = Status::try_from(number) else {
                assert!(
                    !(1..=103).contains(&number) || GAPS.contains(&number),
                    "{number}"
                );
                continue;
            };
            seen += 1;
            assert!(errno(of_status(status)) > 0, "{}", status.as_str_name());
        }
        assert_eq!(seen, 103 - GAPS.len());
    }

    #[test]
    fn statuses_that_callers_decide_by() {
        for (status, kind) in [
            (Status::FileNotFound, K::NotFound),
            (Status::KeyNotFound, K::NotFound),
            (Status::VolumeNotFound, K::NotFound),
            (Status::BucketNotFound, K::NotFound),
            (Status::DirectoryNotFound, K::ParentNotFound),
            (Status::FileAlreadyExists, K::AlreadyExists),
            (Status::KeyAlreadyExists, K::AlreadyExists),
            (Status::NotAFile, K::IsDirectory),
            (Status::DirectoryNotEmpty, K::DirectoryNotEmpty),
            (Status::PermissionDenied, K::PermissionDenied),
            (Status::NotSupportedOperation, K::Unsupported),
            (Status::FeatureNotEnabled, K::Disabled),
            (Status::QuotaExceeded, K::QuotaExceeded),
            (Status::KeyUnderLeaseSoftLimitPeriod, K::Conflict),
            (Status::KeyUnderLeaseRecovery, K::Recovering),
            (Status::Timeout, K::OutcomeUnknown),
            (Status::InternalError, K::Io),
        ] {
            assert_eq!(of_status(status), kind, "{}", status.as_str_name());
        }
    }

    #[test]
    fn every_code_of_appending_has_a_kind() {
        for number in 0..=100 {
            let Ok(code) = AppendCode::try_from(number) else {
                assert!(number > 17, "{number}");
                continue;
            };
            assert_eq!(of_code(code).is_none(), code == AppendCode::Ok, "{number}");
        }
        for (code, kind) in [
            (AppendCode::ConflictAppend, K::Conflict),
            (AppendCode::ConflictOrdinary, K::Conflict),
            (AppendCode::ConflictHsync, K::Conflict),
            (AppendCode::Recovering, K::Recovering),
            (AppendCode::Fenced, K::StaleSession),
            (AppendCode::SessionUnknown, K::StaleSession),
            (AppendCode::Invalidated, K::NotFound),
            (AppendCode::Unreachable, K::NotFound),
            (AppendCode::Unsupported, K::Unsupported),
            (AppendCode::Disabled, K::Disabled),
            (AppendCode::Uncertain, K::OutcomeUnknown),
        ] {
            assert_eq!(of_code(code), Some(kind));
        }
    }

    #[test]
    fn the_errnos_that_c_callers_test_for() {
        for (kind, number) in [
            (K::NotFound, libc::ENOENT),
            (K::IsDirectory, libc::EISDIR),
            (K::ReadOnly, libc::EROFS),
            (K::PermissionDenied, libc::EACCES),
            (K::Unsupported, libc::ENOTSUP),
            (K::StaleSession, libc::ESTALE),
            (K::QuotaExceeded, libc::EDQUOT),
            (K::Closed, libc::EBADF),
            (K::Cancelled, libc::EINTR),
        ] {
            assert_eq!(errno(kind), number);
        }
        for kind in KINDS {
            assert!(errno(kind) > 0);
            assert_eq!(retry(kind) == Retry::LookFirst, kind == K::OutcomeUnknown);
        }
    }
}
