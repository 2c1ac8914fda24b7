//! The one table from a refusal of the rules to what Ozone's and our clients are told.
//!
//! A status is always one that Ozone's clients know; what only ours can use is the code beside it.

use append_namespace::RefusalKind;
use append_wire::om::{AppendCode, Status};

/// How a refusal is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// As an answer: Ozone's status, and the code behind it when a rule of appending refused.
    Answer(Status, Option<AppendCode>),
    /// As the exception on which every client waits and sends the call again.
    ComeAgain,
}

/// What a client is told about a refusal.
#[must_use]
pub fn told(kind: RefusalKind) -> Told {
    use RefusalKind as Kind;
    let plain = |status| Told::Answer(status, None);
    let coded = |status, code| Told::Answer(status, Some(code));
    match kind {
        Kind::Unknown => plain(Status::InternalError),
        Kind::VolumeNotFound => plain(Status::VolumeNotFound),
        Kind::VolumeExists => plain(Status::VolumeAlreadyExists),
        Kind::VolumeNotEmpty => plain(Status::VolumeNotEmpty),
        Kind::BucketNotFound => plain(Status::BucketNotFound),
        Kind::BucketExists => plain(Status::BucketAlreadyExists),
        Kind::BucketNotEmpty => plain(Status::BucketNotEmpty),
        Kind::InvalidVolumeName => plain(Status::InvalidVolumeName),
        Kind::InvalidBucketName => plain(Status::InvalidBucketName),
        Kind::InvalidKeyName => plain(Status::InvalidKeyName),
        Kind::KeyNotFound => plain(Status::KeyNotFound),
        Kind::FileNotFound => plain(Status::FileNotFound),
        Kind::DirectoryNotFound => plain(Status::DirectoryNotFound),
        Kind::FileExists => plain(Status::FileAlreadyExists),
        Kind::KeyExists => plain(Status::KeyAlreadyExists),
        Kind::NotAFile => plain(Status::NotAFile),
        Kind::DirectoryNotEmpty => plain(Status::DirectoryNotEmpty),
        Kind::RenameRefused => plain(Status::KeyRenameError),
        Kind::UpdateIdMismatch => plain(Status::UpdateIdNotMatch),
        Kind::WriteConflict => plain(Status::AtomicWriteConflict),
        Kind::QuotaExceeded => plain(Status::QuotaExceeded),
        Kind::InvalidRequest => plain(Status::InvalidRequest),
        Kind::Unsupported => coded(Status::NotSupportedOperation, AppendCode::Unsupported),
        Kind::RenameOpenFile => plain(Status::RenameOpenFile),
        Kind::PermissionDenied => plain(Status::PermissionDenied),
        Kind::AlreadyClosed => plain(Status::KeyAlreadyClosed),
        Kind::ConflictAppend => coded(
            Status::KeyUnderLeaseSoftLimitPeriod,
            AppendCode::ConflictAppend,
        ),
        Kind::Recovering => coded(Status::KeyUnderLeaseRecovery, AppendCode::Recovering),
        Kind::ConflictOrdinary => coded(Status::InvalidRequest, AppendCode::ConflictOrdinary),
        Kind::ConflictHsync => coded(Status::InvalidRequest, AppendCode::ConflictHsync),
        Kind::Fenced => coded(Status::KeyUnderLeaseRecovery, AppendCode::Fenced),
        Kind::SessionUnknown => coded(Status::KeyNotFound, AppendCode::SessionUnknown),
        Kind::Invalidated => coded(Status::KeyNotFound, AppendCode::Invalidated),
        Kind::Unreachable => coded(Status::KeyNotFound, AppendCode::Unreachable),
        Kind::NotEligible => coded(
            Status::KeyUnderLeaseSoftLimitPeriod,
            AppendCode::NotEligible,
        ),
        Kind::AppendUnsupported => coded(Status::NotSupportedOperation, AppendCode::Unsupported),
        Kind::AppendDisabled => coded(Status::FeatureNotEnabled, AppendCode::Disabled),
        Kind::BadPublication => coded(Status::InvalidRequest, AppendCode::BadPublication),
        Kind::IdentityMismatch => coded(Status::InvalidRequest, AppendCode::IdentityMismatch),
        Kind::Uncertain => coded(Status::Timeout, AppendCode::Uncertain),
        Kind::GenerationGone => coded(Status::InvalidRequest, AppendCode::GenerationGone),
        Kind::TooManyBlocks => coded(Status::InvalidRequest, AppendCode::TooManyBlocks),
        Kind::RetryLater => Told::ComeAgain,
        Kind::NotFinalized => coded(
            Status::NotSupportedOperationPriorFinalization,
            AppendCode::Disabled,
        ),
    }
}

/// The code of a refused renewal, which has no status of its own.
#[must_use]
pub fn renewal_code(kind: RefusalKind) -> AppendCode {
    match told(kind) {
        Told::ComeAgain => AppendCode::RetryLater,
        Told::Answer(_, Some(code)) => code,
        // A session that a reason without a code refused cannot be told from one that is gone.
        Told::Answer(_, None) => AppendCode::SessionUnknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind that the log can carry, found by its number.
    fn all() -> impl Iterator<Item = RefusalKind> {
        (0..1024).filter_map(|number| RefusalKind::try_from(number).ok())
    }

    #[test]
    fn each_code_of_appending_is_told_by_its_own_kind() {
        // Wire numbers of status and code, as the protocol fixes them.
        let fixed = [
            (RefusalKind::ConflictAppend, 97, 1),
            (RefusalKind::Recovering, 95, 2),
            (RefusalKind::ConflictOrdinary, 39, 3),
            (RefusalKind::ConflictHsync, 39, 4),
            (RefusalKind::Fenced, 95, 5),
            (RefusalKind::SessionUnknown, 12, 6),
            (RefusalKind::Invalidated, 12, 7),
            (RefusalKind::Unreachable, 12, 8),
            (RefusalKind::NotEligible, 97, 9),
            (RefusalKind::AppendUnsupported, 64, 10),
            (RefusalKind::AppendDisabled, 86, 11),
            (RefusalKind::BadPublication, 39, 12),
            (RefusalKind::IdentityMismatch, 39, 13),
            (RefusalKind::Uncertain, 49, 14),
            (RefusalKind::GenerationGone, 39, 15),
            (RefusalKind::TooManyBlocks, 39, 16),
            (RefusalKind::NotFinalized, 75, 11),
        ];
        for (kind, status, code) in fixed {
            let Told::Answer(told_status, Some(told_code)) = told(kind) else {
                panic!("{kind:?} has no code");
            };
            assert_eq!(
                (told_status as i32, told_code as i32),
                (status, code),
                "{kind:?}"
            );
            assert_eq!(renewal_code(kind), told_code);
        }
        assert_eq!(told(RefusalKind::RetryLater), Told::ComeAgain);
        assert_eq!(renewal_code(RefusalKind::RetryLater) as i32, 17);
    }

    #[test]
    fn kinds_that_ozone_has_keep_its_numbers() {
        let fixed = [
            (RefusalKind::VolumeNotFound, 3),
            (RefusalKind::VolumeNotEmpty, 4),
            (RefusalKind::VolumeExists, 5),
            (RefusalKind::BucketNotFound, 8),
            (RefusalKind::BucketNotEmpty, 9),
            (RefusalKind::BucketExists, 10),
            (RefusalKind::KeyExists, 11),
            (RefusalKind::KeyNotFound, 12),
            (RefusalKind::InvalidKeyName, 13),
            (RefusalKind::RenameRefused, 18),
            (RefusalKind::InvalidRequest, 39),
            (RefusalKind::FileNotFound, 44),
            (RefusalKind::DirectoryNotFound, 45),
            (RefusalKind::FileExists, 46),
            (RefusalKind::NotAFile, 47),
            (RefusalKind::PermissionDenied, 48),
            (RefusalKind::InvalidBucketName, 58),
            (RefusalKind::InvalidVolumeName, 61),
            (RefusalKind::Unsupported, 64),
            (RefusalKind::QuotaExceeded, 66),
            (RefusalKind::DirectoryNotEmpty, 68),
            (RefusalKind::RenameOpenFile, 90),
            (RefusalKind::AlreadyClosed, 96),
            (RefusalKind::WriteConflict, 101),
            (RefusalKind::UpdateIdMismatch, 103),
        ];
        for (kind, status) in fixed {
            assert!(
                matches!(told(kind), Told::Answer(told, _) if told as i32 == status),
                "{kind:?} is told as {:?}",
                told(kind)
            );
        }
    }

    #[test]
    fn no_refusal_reads_as_success_and_none_is_left_out() {
        let mut kinds = 0;
        for kind in all() {
            kinds += 1;
            assert!(
                !matches!(told(kind), Told::Answer(Status::Ok, _)),
                "{kind:?}"
            );
            assert_ne!(renewal_code(kind), AppendCode::Ok, "{kind:?}");
            if kind != RefusalKind::Unknown {
                assert!(
                    !matches!(told(kind), Told::Answer(Status::InternalError, _)),
                    "{kind:?} has no status of its own"
                );
            }
        }
        assert_eq!(
            kinds, 44,
            "a new kind of refusal needs a row in the tests above"
        );
    }
}
