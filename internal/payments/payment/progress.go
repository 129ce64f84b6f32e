package payment

// A Progress is how far a pending payment has come, as merchants see it.
type Progress string

// The words. A re-organisation may take ProgressMined back.
const (
	ProgressCommitted Progress = "committed"         // no node is known to have it
	ProgressSent      Progress = "sent"              // a node has it
	ProgressMined     Progress = "mined"             // as many nodes count its nonce as mined as confirm a payment
	WaitingForFees    Progress = "waiting_for_fees"  // the market asks more than the stack may pay
	WaitingForFunds   Progress = "waiting_for_funds" // its wallet lacks gas
)
