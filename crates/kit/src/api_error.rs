//! What an answer of the API server means for whoever asked.

use kube::Error;

/// There is no such object, or no such kind. Told by the code: of a path that it does not know, a
/// server gives no reason.
pub fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

/// The object is not as it was when it was read: somebody else has written or created it.
pub fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answer(code: u16, reason: &str) -> Error {
        Error::Api(Box::new(Status::failure("no", reason).with_code(code)))
    }

    #[test]
    fn each_answer_means_one_thing() {
        let questions = [is_not_found, is_conflict];
        for (code, reason, expected) in [
            (404, "NotFound", [true, false]),
            (404, "", [true, false]),
            (409, "Conflict", [false, true]),
            (409, "AlreadyExists", [false, true]),
            (410, "Expired", [false, false]),
            (500, "InternalError", [false, false]),
        ] {
            let error = answer(code, reason);
            assert_eq!(questions.map(|question| question(&error)), expected, "{reason}");
        }
    }
}
