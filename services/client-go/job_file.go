package borough

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// JobFile is a job file of a federated job: its fields, as docs/job-files.md names them. The part federation says how
// cells get tasks; an empty one means every cell. Anything that encoding/json can write is a value, such as
//
//	borough.JobFile{
//		"name": "web", "count": 12,
//		"task":       map[string]any{"command": []string{"serve"}},
//		"federation": map[string]any{"where": []string{"region=eu"}, "cell_max": 8},
//	}
//
// A file without a user belongs to the user of the client.
type JobFile map[string]any

const (
	jobFileAccepted     = "a job file as JSON, with its federation part"
	jobFileNameAccepted = "a name such as web"
)

// ParseJobFile reads a job file from JSON, such as one of [Client.GetFederatedJob]. Its numbers are of the type
// [json.Number].
func ParseJobFile(text string) (JobFile, error) {
	var file JobFile
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&file)
	if err == nil && file == nil {
		err = fmt.Errorf("no fields")
	}
	if err == nil && decoder.Decode(&struct{}{}) != io.EOF {
		err = fmt.Errorf("more than one value")
	}
	if err != nil {
		return nil, &InvalidError{Fields: []InvalidField{{"job_file", err.Error(), jobFileAccepted}}}
	}
	return file, nil
}

// read is the job that the file names, and its JSON. A file without a user is of this one.
func (file JobFile) read(user string) (job JobRef, text string, err error) {
	var invalid invalidFields
	written, failure := json.Marshal(file)
	if failure != nil {
		invalid.refuse("job_file", failure.Error(), "values that encoding/json can write")
	}
	name := func(field string) string {
		value, is := file[field].(string)
		invalid.require(is && value != "", "job_file."+field, quoted(fmt.Sprint(file[field])), jobFileNameAccepted)
		return value
	}
	job = JobRef{User: user, Name: name("name")}
	if _, is := file["user"]; is {
		job.User = name("user")
	}
	return job, string(written), invalid.err()
}
