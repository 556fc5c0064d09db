//! Resources that are answered but never stored.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Virtual {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub kind: &'static str,
}

const fn review(
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
) -> Virtual {
    let version = "v1";
    Virtual {
        group,
        version,
        plural,
        singular,
        kind,
    }
}

/// Questions about the caller: cluster-scoped, `create` is their only verb.
#[rustfmt::skip]
pub const VIRTUAL: &[Virtual] = &[
    review("authentication.k8s.io", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview"),
    review("authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview"),
    review("authorization.k8s.io", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview"),
    review("authorization.k8s.io", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview"),
];
