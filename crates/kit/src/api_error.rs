//! What an answer of the API server means for its caller.

use kube::Error;
use kube::core::Status;

/// There is no such object, or no such kind. The code decides: for an unknown path, a server gives
/// no reason.
pub fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

/// The object is not as it was when it was read: somebody else has written or created it.
pub fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

/// The server's own words. If it does not serve the kind at all: what to do about that.
pub fn told(error: &Error) -> String {
    let Error::Api(status) = error else {
        return error.to_string();
    };
    if is_unserved(status) {
        return "the API server does not serve this kind (404): if its definition was deleted, \
                `berth crds | kubectl apply -f -` brings it back"
            .to_owned();
    }
    let reason = if status.reason.is_empty() {
        "no reason"
    } else {
        &status.reason
    };
    format!("{} ({}, {reason})", status.message, status.code)
}

/// A server answers an unknown path with plain text, so the Status that kube makes of it does not
/// have the reason `NotFound`. The answer for a missing object has it.
fn is_unserved(status: &Status) -> bool {
    status.code == 404 && !status.is_not_found()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, reason: &str) -> Error {
        Error::Api(Box::new(Status::failure("no", reason).with_code(code)))
    }

    #[test]
    fn what_the_server_said_is_told_without_the_rest_of_its_answer() {
        let forbidden = Status::failure("nodes is forbidden", "Forbidden").with_code(403);
        let told = |status: Status| told(&Error::Api(Box::new(status)));
        assert_eq!(told(forbidden), "nodes is forbidden (403, Forbidden)");
        let unserved = Status::failure("404 page not found", "Failed to parse error data");
        let said = told(unserved.with_code(404));
        assert!(said.contains("berth crds"), "{said}");
        let gone = Status::failure("pods \"a\" not found", "NotFound").with_code(404);
        assert_eq!(told(gone), "pods \"a\" not found (404, NotFound)");
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
