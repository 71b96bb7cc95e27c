package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const hz = 100 // USER_HZ on Linux

// cpuOf is the processor time that each process has used, in seconds.
func cpuOf(pids []int) []float64 {
	used := make([]float64, len(pids))
	for i, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name of the program may hold anything, and ends with the last bracket.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		user, _ := strconv.ParseFloat(fields[11], 64)
		kernel, _ := strconv.ParseFloat(fields[12], 64)
		used[i] = (user + kernel) / hz
	}
	return used
}

func selfCPU() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}
