//! Grants: who may do what in a cell.

use borough_proto::v1::access_service_client::AccessServiceClient;
use borough_proto::v1::{
    CheckAccessRequest, CheckAccessResponse, GetGrantRequest, GetGrantResponse, Grant, IdentityKey,
    ListGrantsRequest, ListGrantsResponse, ListHoldersRequest, ListHoldersResponse, ListIdentityKeysRequest,
    PageRequest, RotateIdentityKeysRequest, SetGrantRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;

/// How a key of identities is replaced before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityKeyRotation {
    /// The new key is published for so long before it signs, and those before it stay as long as their tokens.
    Ahead(std::time::Duration),
    /// The new key signs at once, and no token of those before it counts any more.
    Withdraw,
}

/// Something that a caller may want to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessQuestion {
    /// The name of a right, such as `read`, or of a method of the API, such as `StopJob`.
    pub action: String,
    /// The user whose jobs it concerns; empty: the caller's own.
    pub owner: String,
    /// `user/NAME` or `group/NAME`; empty: the caller.
    pub subject: String,
    /// Groups of that user.
    pub groups: Vec<String>,
}

impl Client {
    /// One page of the grants of the cell, by subject.
    ///
    /// # Errors
    /// As for every call.
    pub async fn grant_list_page(&self, page: PageRequest) -> Result<ListGrantsResponse, ClientError> {
        let message = ListGrantsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            page: Some(page),
        };
        self.call("ListGrants", message, rpc!(AccessServiceClient.list_grants)).await
    }

    /// The grant of `user/NAME` or `group/NAME`, with its last changes. One that was never set gives nothing.
    ///
    /// # Errors
    /// As for every call.
    pub async fn grant_get(&self, subject: &str) -> Result<GetGrantResponse, ClientError> {
        let message = GetGrantRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            subject: subject.to_owned(),
        };
        self.call("GetGrant", message, rpc!(AccessServiceClient.get_grant)).await
    }

    /// Sets the grant of its subject as a whole; without roles and rights it is taken away. `expected` is the revision
    /// that the change was made for; 0: any.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the grant has another revision.
    pub async fn grant_set(&self, grant: Grant, expected: u64) -> Result<Grant, ClientError> {
        let message = SetGrantRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            grant: Some(grant),
            expected_revision: expected,
        };
        let answer = self.call("SetGrant", message, rpc!(AccessServiceClient.set_grant)).await?;
        present("SetGrant", "grant", answer.grant)
    }

    /// Whether the caller, or another subject, may do something, and why.
    ///
    /// # Errors
    /// As for every call; `PERMISSION_DENIED` if a caller without `read` asks about others.
    pub async fn access_check(&self, question: AccessQuestion) -> Result<CheckAccessResponse, ClientError> {
        let AccessQuestion { action, owner, subject, groups } = question;
        let (context, cell) = (self.context_read(), self.cell().to_owned());
        let message = CheckAccessRequest { context, cell, action, owner, subject, groups };
        self.call("CheckAccess", message, rpc!(AccessServiceClient.check_access)).await
    }

    /// The users and groups that may do `action`, for the work of `owner` (empty: of everybody).
    ///
    /// # Errors
    /// As for every call.
    pub async fn access_holders(
        &self,
        action: &str,
        owner: &str,
    ) -> Result<ListHoldersResponse, ClientError> {
        let message = ListHoldersRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            action: action.to_owned(),
            owner: owner.to_owned(),
        };
        self.call("ListHolders", message, rpc!(AccessServiceClient.list_holders)).await
    }

    /// The keys that sign the identities of tasks, the oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn identity_key_list(&self) -> Result<Vec<IdentityKey>, ClientError> {
        let message = ListIdentityKeysRequest { context: self.context_read(), cell: self.cell().to_owned() };
        let answer = self.call("ListIdentityKeys", message, rpc!(AccessServiceClient.list_identity_keys));
        Ok(answer.await?.keys)
    }

    /// Makes another key for the identities of tasks. Returns the keys after it.
    ///
    /// # Errors
    /// As for every call.
    pub async fn identity_keys_rotate(
        &self,
        rotation: IdentityKeyRotation,
    ) -> Result<Vec<IdentityKey>, ClientError> {
        let (ahead_ms, withdraw) = match rotation {
            IdentityKeyRotation::Ahead(ahead) => {
                (u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX), false)
            }
            IdentityKeyRotation::Withdraw => (0, true),
        };
        let message = RotateIdentityKeysRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            ahead_ms,
            withdraw,
        };
        let answer = self.call("RotateIdentityKeys", message, rpc!(AccessServiceClient.rotate_identity_keys));
        Ok(answer.await?.keys)
    }
}
