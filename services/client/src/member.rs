//! Member cells of a federation. The cell of the client is the home of the federation.

use std::collections::BTreeMap;

use borough_proto::v1::member_service_client::MemberServiceClient;
use borough_proto::v1::{
    ChangeMemberRequest, GetMemberRequest, JoinMemberRequest, LabelMatch, ListMembersRequest, Member,
    RemoveMemberRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;
use crate::job::LabelChange;

/// What changes of a member cell. What is absent or empty stays.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MemberChange {
    /// Addresses of gateways in place of all that there are.
    pub gateways: Vec<String>,
    pub labels: LabelChange,
    /// Whether it gets no new work.
    pub cordoned: Option<bool>,
    /// Whether its federated tasks go to other cells.
    pub draining: Option<bool>,
    /// The revision that the change was made for; 0: any.
    pub expected_revision: u64,
}

impl Client {
    /// The member cells whose labels meet all of these conditions, by name, with what was last seen of each.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the gateway does not serve the home.
    pub async fn member_list(&self, selector: Vec<LabelMatch>) -> Result<Vec<Member>, ClientError> {
        let message =
            ListMembersRequest { context: self.context_read(), cell: self.cell().to_owned(), selector };
        let answer = self.call("ListMembers", message, rpc!(MemberServiceClient.list_members)).await?;
        Ok(answer.members)
    }

    /// One member cell.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if no such cell is a member.
    pub async fn member_get(&self, member: &str) -> Result<Member, ClientError> {
        let message = GetMemberRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            member: member.to_owned(),
        };
        let answer = self.call("GetMember", message, rpc!(MemberServiceClient.get_member)).await?;
        present("GetMember", "member", answer.member)
    }

    /// Adds a cell to the federation. Its gateways know it by the name `member`.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if it is a member.
    pub async fn member_join(
        &self,
        member: &str,
        gateways: Vec<String>,
        labels: BTreeMap<String, String>,
    ) -> Result<Member, ClientError> {
        let message = JoinMemberRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            member: member.to_owned(),
            gateways,
            labels,
        };
        let answer = self.call("JoinMember", message, rpc!(MemberServiceClient.join_member)).await?;
        present("JoinMember", "member", answer.member)
    }

    /// Changes a member cell.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if no such cell is a member, `FAILED_PRECONDITION` if it has another revision.
    pub async fn member_change(&self, member: &str, change: MemberChange) -> Result<Member, ClientError> {
        let message = ChangeMemberRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            member: member.to_owned(),
            gateways: change.gateways,
            labels: change.labels.set,
            labels_removed: change.labels.remove,
            cordoned: change.cordoned,
            draining: change.draining,
            expected_revision: change.expected_revision,
        };
        let answer = self.call("ChangeMember", message, rpc!(MemberServiceClient.change_member)).await?;
        present("ChangeMember", "member", answer.member)
    }

    /// Takes a cell out of the federation. Its jobs go on.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if no such cell is a member.
    pub async fn member_remove(&self, member: &str) -> Result<Member, ClientError> {
        let message = RemoveMemberRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            member: member.to_owned(),
        };
        let answer = self.call("RemoveMember", message, rpc!(MemberServiceClient.remove_member)).await?;
        present("RemoveMember", "member", answer.member)
    }
}
